import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's own tools one after the other in one JVM, because starting a JVM for each costs most of the time.
 *
 * Request on standard input: int count, then that many strings (class name, arguments...), then a string for the tool's
 * standard input. Answer on standard output: int exit code, string out, string err. A string is an int length and bytes.
 */
public final class ToolRunner {
    /** Unwinds the tool. Some tools catch everything, so the code and output of the first exit count. */
    private static final class Exited extends Error {
        Exited() {
            super(null, null, false, false);
        }
    }

    /** Shutdown hooks of the tool. The runner runs them when the tool has ended. */
    private static final List<Runnable> hooks = new ArrayList<>();
    private static Integer exitCode;
    private static int outLength;
    private static int errLength;
    private static ByteArrayOutputStream out;
    private static ByteArrayOutputStream err;

    private static void exited(int code, String message) {
        if (exitCode == null) {
            System.out.flush();
            System.err.flush();
            exitCode = code;
            outLength = out.size();
            errLength = err.size();
        }
        throw new Exited();
    }

    public static void main(String[] ignored) throws Exception {
        Exit.setExitProcedure(ToolRunner::exited);
        Exit.setHaltProcedure(ToolRunner::exited);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        while (true) {
            int count;
            try {
                count = requests.readInt();
            } catch (java.io.EOFException end) {
                Runtime.getRuntime().halt(0);
                return;
            }
            List<String> words = new ArrayList<>();
            for (int at = 0; at < count; at++) words.add(read(requests));
            String input = read(requests);
            exitCode = null;
            out = new ByteArrayOutputStream();
            err = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            hooks.clear();
            int code = run(words);
            for (Runnable hook : hooks) hook.run();
            System.out.flush();
            System.err.flush();
            boolean byExit = exitCode != null;
            answers.writeInt(byExit ? exitCode : code);
            write(answers, out.toByteArray(), byExit ? outLength : out.size());
            write(answers, err.toByteArray(), byExit ? errLength : err.size());
            answers.flush();
        }
    }

    private static int run(List<String> words) {
        try {
            String[] arguments = words.subList(1, words.size()).toArray(new String[0]);
            Class.forName(words.get(0)).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException wrapped) {
            if (!(wrapped.getCause() instanceof Exited)) wrapped.getCause().printStackTrace();
            return 1;
        } catch (ReflectiveOperationException missing) {
            missing.printStackTrace();
            return 1;
        }
    }

    private static String read(DataInputStream in) throws java.io.IOException {
        byte[] data = new byte[in.readInt()];
        in.readFully(data);
        return new String(data, StandardCharsets.UTF_8);
    }

    private static void write(DataOutputStream out, byte[] data, int length) throws java.io.IOException {
        out.writeInt(length);
        out.write(data, 0, length);
    }
}
