import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/** Apache Avro's compatibility check. Input line: reader and writer schema, separated by a tab. Answer: canonical forms and result. */
public class AvroJudge {
  private static Schema parsed(String text) {
    Schema.Parser parser = new Schema.Parser(NameValidator.NO_VALIDATION);
    parser.setValidateDefaults(false);
    return parser.parse(text);
  }

  private static String judged(String reader, String writer) {
    Schema first;
    Schema second;
    try {
      first = parsed(reader);
      second = parsed(writer);
    } catch (RuntimeException error) {
      return "invalid\t\t";
    }
    String verdict;
    try {
      verdict = SchemaCompatibility.checkReaderWriterCompatibility(first, second).getType().name();
    } catch (RuntimeException error) {
      verdict = "INCOMPATIBLE";
    }
    return verdict + "\t" + first + "\t" + second;
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, false, "UTF-8");
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] pair = line.split("\t");
      out.print(judged(pair[0], pair[1]) + "\n");
    }
    out.flush();
  }
}
