import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member that works until it is killed: accepts most records, releases some, and prints each record and its acknowledgement before and after sending it. */
public class WorkingMember {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[2]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("max.poll.records", "20");
        Random chance = new Random();
        try (var consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(arguments[1]));
            while (true) {
                var records = consumer.poll(Duration.ofMillis(300));
                for (var record : records) {
                    tell("got", record.partition(), record.offset(), record.deliveryCount().get());
                }
                Thread.sleep(chance.nextInt(30));
                for (var record : records) {
                    boolean release = chance.nextInt(12) == 0 && record.deliveryCount().get() < 3;
                    consumer.acknowledge(record, release ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                    tell(release ? "releases" : "accepts", record.partition(), record.offset(), 0);
                }
                Set<Integer> failed = new HashSet<>();
                consumer.commitSync().forEach((partition, error) -> {
                    if (error.isPresent()) failed.add(partition.partition());
                });
                for (var record : records) {
                    tell(failed.contains(record.partition()) ? "failed" : "said", record.partition(), record.offset(), 0);
                }
            }
        }
    }

    private static void tell(String what, int partition, long offset, int count) {
        System.out.println(what + " " + System.currentTimeMillis() + " " + partition + " " + offset + " " + count);
    }
}
