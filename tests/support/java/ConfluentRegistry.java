import java.util.List;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaMetadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;

/** Confluent's Java client of the schema registry, as Apache Flink ships it, against the registry at args[0]. */
public class ConfluentRegistry {
    private static final String FIRST =
            "{\"type\":\"record\",\"name\":\"Order\",\"namespace\":\"shop.java\",\"fields\":[{\"name\":\"id\",\"type\":\"long\"}]}";
    private static final String SECOND = FIRST.replace("}]}", "},{\"name\":\"count\",\"type\":\"int\",\"default\":1}]}");

    public static void main(String[] args) throws Exception {
        CachedSchemaRegistryClient client = new CachedSchemaRegistryClient(List.of(args[0]), 100);
        String subject = "java-value";
        int first = client.register(subject, new AvroSchema(FIRST));
        CachedSchemaRegistryClient fresh = new CachedSchemaRegistryClient(List.of(args[0]), 100);
        System.out.println("register " + fresh.getSchemaById(first).canonicalString().equals(FIRST));
        int second = client.register(subject, new AvroSchema(SECOND));
        SchemaMetadata latest = fresh.getLatestSchemaMetadata(subject);
        System.out.println("latest " + latest.getVersion() + " " + (latest.getId() == second) + " " + latest.getSchemaType());
        System.out.println("lookup " + fresh.getVersion(subject, new AvroSchema(FIRST)) + " " + fresh.getAllVersions(subject));
        AvroSchema broken = new AvroSchema("\"string\"");
        System.out.println("check " + fresh.testCompatibility(subject, broken) + " " + fresh.testCompatibility(subject, new AvroSchema(FIRST)));
        try {
            client.register(subject, broken);
            System.out.println("refused no");
        } catch (RestClientException refused) {
            System.out.println("refused " + refused.getStatus() + " " + refused.getErrorCode());
        }
        System.out.println("level " + client.updateCompatibility(subject, "FULL") + " " + fresh.getCompatibility(subject));
        System.out.println("mode " + fresh.getMode());
        System.out.println("delete " + client.deleteSubject(subject) + " " + client.deleteSubject(java.util.Map.of(), subject, true));
        try {
            fresh.getAllVersions(subject);
        } catch (RestClientException gone) {
            System.out.println("gone " + gone.getErrorCode());
        }
    }
}
