// Prints what Apache Kafka itself declares about its keys, one line each, for test_against_kafka.py.

import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

public class KafkaConfigFacts {
    static void print(String kind, ConfigDef declared, Map<String, String> updates) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(declared.configKeys()).values()) {
            boolean none = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE || key.defaultValue == null;
            String value = none ? "\\N" : ConfigDef.convertToString(key.defaultValue, key.type);
            String update = updates.getOrDefault(key.name, "read-only");
            System.out.println(String.join("\t", kind, key.name, key.type.name(), value, key.importance.name(), update,
                key.internalConfig ? "internal" : "public"));
        }
    }

    public static void main(String[] arguments) {
        print("broker", kafka.server.KafkaConfig.configDef(), DynamicBrokerConfig.dynamicConfigUpdateModes());
        print("topic", LogConfig.configDefCopy(), Map.of());
        print("group", GroupConfig.CONFIG_DEF, Map.of());
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((topic, names) -> System.out.println(
            "synonyms\t" + topic + "\t" + names.stream().map(name -> name.name()).collect(Collectors.joining(","))));
    }
}
