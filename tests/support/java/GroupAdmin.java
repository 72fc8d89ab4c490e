import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;

/**
 * Java's Admin client for classic groups, driven line by line. The argument is BOOTSTRAP.
 *
 *   remove GROUP [INSTANCE...]       these members, or all
 *   list STATE TYPE                  names of groups; "-" for any
 *   describe GROUP                   state, protocol type, instances
 *   delete GROUP | forget GROUP TOPIC PARTITION
 *
 * Each line is answered by one: "ok ..." or "error ExceptionName message".
 */
public class GroupAdmin {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        try (Admin admin = Admin.create(settings)) {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            String line;
            while ((line = in.readLine()) != null) {
                System.out.println(answer(admin, line.trim().split(" ")));
                System.out.flush();
            }
        }
    }

    private static String answer(Admin admin, String[] words) {
        try {
            return "ok " + run(admin, words);
        } catch (Throwable problem) {
            Throwable cause = problem instanceof ExecutionException ? problem.getCause() : problem;
            return "error " + cause.getClass().getSimpleName() + " " + String.valueOf(cause.getMessage()).replace('\n', ' ');
        }
    }

    private static String run(Admin admin, String[] words) throws Exception {
        String group = words[1];
        switch (words[0]) {
            case "remove":
                Set<MemberToRemove> named = Arrays.stream(words).skip(2).map(MemberToRemove::new).collect(Collectors.toSet());
                RemoveMembersFromConsumerGroupOptions options = named.isEmpty()
                    ? new RemoveMembersFromConsumerGroupOptions() : new RemoveMembersFromConsumerGroupOptions(named);
                admin.removeMembersFromConsumerGroup(group, options).all().get();
                return "";
            case "list":
                ListGroupsOptions filter = new ListGroupsOptions();
                if (!words[1].equals("-")) {
                    filter.inGroupStates(EnumSet.of(GroupState.parse(words[1])));
                }
                if (!words[2].equals("-")) {
                    filter.withTypes(Set.of(GroupType.parse(words[2])));
                }
                return admin.listGroups(filter).all().get().stream().map(g -> g.groupId()).sorted().collect(Collectors.joining(","));
            case "describe":
                var described = admin.describeClassicGroups(List.of(group)).all().get().get(group);
                return described.state() + " " + described.protocol() + " " + described.members().stream()
                    .map(m -> m.groupInstanceId().orElse("-")).sorted().collect(Collectors.joining(","));
            case "delete":
                admin.deleteConsumerGroups(List.of(group)).all().get();
                return "";
            case "forget":
                admin.deleteConsumerGroupOffsets(group, Set.of(new TopicPartition(words[2], Integer.parseInt(words[3])))).all().get();
                return "";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }
}
