import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member that acknowledges each record explicitly: "release", "renew" and "reject" once, otherwise it accepts. */
public class ExplicitMember {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[2]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("share.acquire.mode", "record_limit");
        settings.put("max.poll.records", "2");
        int wanted = Integer.parseInt(arguments[3]);
        java.util.Set<String> renewed = new java.util.HashSet<>();
        try (var consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(arguments[1]));
            long end = System.currentTimeMillis() + 40_000;
            for (int told = 0; told < wanted && System.currentTimeMillis() < end; ) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
                if (records.count() > 2) throw new IllegalStateException("more than asked for: " + records.count());
                for (ConsumerRecord<String, String> record : records) {
                    AcknowledgeType type = AcknowledgeType.ACCEPT;
                    if (record.value().startsWith("release") && record.deliveryCount().get() == 1) type = AcknowledgeType.RELEASE;
                    if (record.value().startsWith("renew") && renewed.add(record.value())) type = AcknowledgeType.RENEW;
                    if (record.value().startsWith("reject")) type = AcknowledgeType.REJECT;
                    consumer.acknowledge(record, type);
                    System.out.println("told " + record.value() + " " + record.deliveryCount().get() + " " + type);
                    told++;
                }
                consumer.commitSync().values().forEach(error -> error.ifPresent(e -> { throw e; }));
            }
        }
    }
}
