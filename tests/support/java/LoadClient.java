import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An idempotent producer that writes NAME/0, NAME/1, ... at a pace, and a group that reads the topic:
 * LoadClient BOOTSTRAP TOPIC NAME PER_SECOND. It prints these lines:
 *
 *   ack PARTITION OFFSET VALUE      failed VALUE WHY      read PARTITION OFFSET VALUE      flushed COUNT
 *
 * "stop" on its input stops the producer, which then prints "flushed". "end" or the end of the input stops both.
 */
public class LoadClient {
    private static final AtomicBoolean writing = new AtomicBoolean(true);
    private static final AtomicBoolean reading = new AtomicBoolean(true);

    public static void main(String[] args) throws Exception {
        Thread reader = new Thread(() -> read(args[0], args[1]));
        Thread writer = new Thread(() -> write(args[0], args[1], args[2], Integer.parseInt(args[3])));
        writer.setDaemon(true);
        reader.start();
        writer.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = in.readLine()) != null && !line.equals("end")) {
            writing.set(false);
        }
        writing.set(false);
        reading.set(false);
        reader.join();
    }

    private static synchronized void tell(String line) {
        System.out.println(line);
    }

    private static void write(String bootstrap, String topic, String name, int perSecond) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "acks", "all", "enable.idempotence", true, "linger.ms", 2,
            "delivery.timeout.ms", 120000, "request.timeout.ms", 6000, "reconnect.backoff.max.ms", 500);
        long number = 0;
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            while (writing.get()) {
                for (int i = 0; i < 10; i++) {
                    String value = name + "/" + number;
                    producer.send(new ProducerRecord<>(topic, String.valueOf(number % 50), value), (done, problem) -> {
                        if (problem != null) {
                            tell("failed " + value + " " + problem);
                        } else {
                            tell("ack " + done.partition() + " " + done.offset() + " " + value);
                        }
                    });
                    number++;
                }
                Thread.sleep(10_000 / perSecond);
            }
            producer.flush();
        } catch (InterruptedException stopped) {
            return;
        }
        tell("flushed " + number);
    }

    private static void read(String bootstrap, String topic) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "group.id", topic + "-java-readers", "auto.offset.reset", "earliest",
            "session.timeout.ms", 10000, "auto.commit.interval.ms", 500, "reconnect.backoff.max.ms", 500);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (reading.get()) {
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(200))) {
                    tell("read " + one.partition() + " " + one.offset() + " " + one.value());
                }
            }
        }
    }
}
