import java.nio.charset.StandardCharsets;
import java.util.Scanner;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Reads pairs of lines (rules, distinguished name) and prints what Apache Kafka makes of each. */
public class PrincipalMapping {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String rules = lines.nextLine(), name = lines.nextLine();
            try {
                System.out.println("=" + SslPrincipalMapper.fromRules(rules).getName(name));
            } catch (IllegalArgumentException invalid) {
                System.out.println("invalid");
            } catch (Exception none) {
                System.out.println("none");
            }
        }
    }
}
