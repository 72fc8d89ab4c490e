import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer and a consumer for tests of faults. Each command uses a new client; SETTINGS are name=value.
 *
 *   send BOOTSTRAP TOPIC VALUE,VALUE SETTINGS   "ok OFFSET,OFFSET": sent one after the other to partition 0
 *   read BOOTSTRAP TOPIC COUNT SETTINGS         "ok VALUE,VALUE": from the beginning of partition 0
 *   commit BOOTSTRAP TOPIC GROUP SETTINGS       "ok": commits offset 1 of partition 0
 *
 * A failed command prints "failed NAME MESSAGE", with the exception that the client gave.
 */
public class FaultClient {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = in.readLine()) != null) {
            String[] words = line.split(" ");
            try {
                System.out.println(("ok " + run(words)).trim());
            } catch (Exception problem) {
                Throwable cause = problem instanceof ExecutionException ? problem.getCause() : problem;
                String message = String.valueOf(cause.getMessage()).replace('\n', ' ');
                System.out.println("failed " + cause.getClass().getSimpleName() + " " + message);
            }
            System.out.flush();
        }
    }

    private static String run(String[] words) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", words[1]);
        for (int i = 4; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        return switch (words[0]) {
            case "send" -> send(settings, words[2], words[3].split(","));
            case "read" -> read(settings, words[2], Integer.parseInt(words[3]));
            default -> commit(settings, words[2], words[3]);
        };
    }

    private static String send(Map<String, Object> settings, String topic, String[] values) throws Exception {
        List<String> offsets = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String value : values) {
                var sent = producer.send(new ProducerRecord<>(topic, 0, null, value));
                offsets.add(String.valueOf(sent.get().offset()));
            }
        }
        return String.join(",", offsets);
    }

    private static String read(Map<String, Object> settings, String topic, int count) {
        List<String> values = new ArrayList<>();
        TopicPartition partition = new TopicPartition(topic, 0);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            while (values.size() < count) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    values.add(record.value());
                }
            }
        }
        return String.join(",", values);
    }

    private static String commit(Map<String, Object> settings, String topic, String group) {
        settings.put("group.id", group);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1)));
        }
        return "";
    }
}
