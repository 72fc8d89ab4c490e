import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A group member that prints its assignments and the records it reads, with the machine's monotonic time:
 *
 *   assigned|revoked|lost NANOSECONDS PARTITION,PARTITION...
 *   read NANOSECONDS PARTITION OFFSET VALUE
 *
 * It commits only printed records. Arguments: TOPIC key=value ... ; "slow.ms=5000" sleeps that long after every tenth
 * poll that returned records. After SIGTERM it leaves the group and exits.
 */
public class GroupMember {
    private static final StringBuilder lines = new StringBuilder();

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        long slowMs = 0;
        for (int i = 1; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            if (pair[0].equals("slow.ms")) {
                slowMs = Long.parseLong(pair[1]);
            } else {
                settings.put(pair[0], pair[1]);
            }
        }
        KafkaConsumer<String, String> consumer =
            new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                main.join(10_000);
            } catch (InterruptedException ignored) {
                // the process ends anyway
            }
        }));
        try {
            read(consumer, args[0], slowMs);
        } catch (WakeupException leaving) {
            // the test asked it to leave
        } finally {
            consumer.close();
            tell();
        }
    }

    private static void read(KafkaConsumer<String, String> consumer, String topic, long slowMs) throws Exception {
        consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                note("assigned", partitions);
            }

            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                note("revoked", partitions);
            }

            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                note("lost", partitions);
            }
        });
        int polls = 0;
        while (true) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
            long now = System.nanoTime();
            for (ConsumerRecord<String, String> record : records) {
                lines.append("read ").append(now).append(' ').append(record.partition()).append(' ')
                    .append(record.offset()).append(' ').append(record.value()).append('\n');
            }
            tell();
            if (slowMs > 0 && !records.isEmpty() && ++polls % 10 == 0) {
                Thread.sleep(slowMs);
            }
            try {
                consumer.commitSync();
            } catch (CommitFailedException | RebalanceInProgressException again) {
                // the next owner of the partitions reads these records again
            }
        }
    }

    private static void note(String what, Collection<TopicPartition> partitions) {
        String named = partitions.stream().map(p -> String.valueOf(p.partition())).collect(Collectors.joining(","));
        lines.append(what).append(' ').append(System.nanoTime()).append(' ').append(named).append('\n');
        tell();
    }

    private static void tell() {
        System.out.print(lines);
        System.out.flush();
        lines.setLength(0);
    }
}
