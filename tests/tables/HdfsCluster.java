import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A NameNode and two DataNodes. Prints the port; "kill" on standard input ends a DataNode, the end of input all. */
public class HdfsCluster {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.setBoolean("dfs.permissions.enabled", false);
        settings.setInt("dfs.replication", 2);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings, new File(arguments[0])).numDataNodes(2).build();
        try {
            cluster.waitActive();
            System.out.println("port " + cluster.getNameNodePort());
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                cluster.stopDataNode(0);
                System.out.println("killed");
            }
        } finally {
            cluster.shutdown();
        }
    }
}
