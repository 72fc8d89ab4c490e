import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/** Answers each line, a group in JSON, with the assignment of Kafka's sticky task assignor. */
public class TaskAssignments {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println("ok " + assign(JSON.readTree(line)));
            System.out.flush();
        }
    }

    private static String assign(JsonNode group) throws Exception {
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        group.get("members").fields().forEachRemaining(each -> {
            JsonNode member = each.getValue();
            members.put(each.getKey(), new AssignmentMemberSpec(Optional.empty(), Optional.empty(),
                tasks(member.get("active")), tasks(member.get("standby")), Map.of(), member.get("process").asText(),
                Map.of(), Map.of(), Map.of()));
        });
        JsonNode sources = group.get("sources");
        TreeMap<String, JsonNode> sorted = new TreeMap<>();
        sources.fields().forEachRemaining(each -> sorted.put(each.getKey(), each.getValue()));
        TopologyDescriber topology = new TopologyDescriber() {
            public List<String> subtopologies() { return List.copyOf(sorted.keySet()); }
            public int maxNumInputPartitions(String name) { return sorted.get(name).get(0).asInt(); }
            public boolean isStateful(String name) { return sorted.get(name).get(1).asBoolean(); }
        };
        Map<String, String> configs = Map.of("num.standby.replicas", group.get("replicas").asText());
        GroupAssignment assigned = new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), topology);
        Map<String, Object> found = new TreeMap<>();
        for (Map.Entry<String, MemberAssignment> each : assigned.members().entrySet()) {
            found.put(each.getKey(), List.of(sorted(each.getValue().activeTasks()), sorted(each.getValue().standbyTasks())));
        }
        return JSON.writeValueAsString(found);
    }

    private static Map<String, Set<Integer>> tasks(JsonNode node) {
        Map<String, Set<Integer>> found = new HashMap<>();
        node.fields().forEachRemaining(each -> {
            Set<Integer> partitions = new HashSet<>();
            each.getValue().forEach(partition -> partitions.add(partition.asInt()));
            found.put(each.getKey(), partitions);
        });
        return found;
    }

    private static Map<String, List<Integer>> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, List<Integer>> found = new TreeMap<>();
        tasks.forEach((name, partitions) -> found.put(name, partitions.stream().sorted().toList()));
        return found;
    }
}
