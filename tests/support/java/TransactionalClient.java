import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactional producers driven line by line, so that a test decides when each step happens.
 *
 *   open NAME key=value ...     a producer with these settings
 *   init|begin|commit|abort|flush|close NAME
 *   send NAME TOPIC PARTITION VALUE...     one record per value; waits for the answers
 *   offsets NAME GROUP TOPIC PARTITION OFFSET
 *   many NAME TOPIC COUNT                  COUNT transactions of one record each; answers with the milliseconds
 *
 * Each line is answered by one: "ok ..." or "error ExceptionName message".
 */
public class TransactionalClient {
    private static final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = in.readLine()) != null) {
            System.out.println(answer(line.trim().split(" ")));
            System.out.flush();
        }
        for (KafkaProducer<String, String> producer : producers.values()) {
            producer.close(Duration.ZERO);
        }
    }

    private static String answer(String[] words) {
        try {
            return "ok " + run(words);
        } catch (Throwable problem) {
            Throwable cause = problem instanceof ExecutionException ? problem.getCause() : problem;
            return "error " + cause.getClass().getSimpleName() + " " + String.valueOf(cause.getMessage()).replace('\n', ' ');
        }
    }

    private static String run(String[] words) throws Exception {
        String name = words[1];
        if (words[0].equals("open")) {
            Properties settings = new Properties();
            for (int i = 2; i < words.length; i++) {
                String[] pair = words[i].split("=", 2);
                settings.put(pair[0], pair[1]);
            }
            producers.put(name, new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer()));
            return "";
        }
        KafkaProducer<String, String> producer = producers.get(name);
        switch (words[0]) {
            case "init": producer.initTransactions(); return "";
            case "begin": producer.beginTransaction(); return "";
            case "commit": producer.commitTransaction(); return "";
            case "abort": producer.abortTransaction(); return "";
            case "flush": producer.flush(); return "";
            case "close": producer.close(Duration.ofSeconds(5)); producers.remove(name); return "";
            case "send": return send(producer, words);
            case "offsets":
                producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(words[3], Integer.parseInt(words[4])), new OffsetAndMetadata(Long.parseLong(words[5]))),
                    new ConsumerGroupMetadata(words[2]));
                return "";
            case "many":
                long began = System.nanoTime();
                for (int i = 0; i < Integer.parseInt(words[3]); i++) {
                    producer.beginTransaction();
                    producer.send(new ProducerRecord<>(words[2], null, "small"));
                    producer.commitTransaction();
                }
                return String.valueOf((System.nanoTime() - began) / 1_000_000.0);
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    private static String send(KafkaProducer<String, String> producer, String[] words) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 4; i < words.length; i++) {
            sent.add(producer.send(new ProducerRecord<>(words[2], Integer.parseInt(words[3]), null, words[i])));
        }
        producer.flush();
        StringBuilder offsets = new StringBuilder();
        for (Future<RecordMetadata> each : sent) {
            offsets.append(each.get().offset()).append(' ');
        }
        return offsets.toString().trim();
    }
}
