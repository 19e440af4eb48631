import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import java.util.Map;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.StringConverter;

/** Reads lines of a key, a tab and a value as Kafka Connect does, and prints the fields of each. */
public class ReadFlat {
    public static void main(String[] arguments) throws Exception {
        System.setOut(new PrintStream(System.out, true, StandardCharsets.UTF_8));
        StringConverter keys = new StringConverter();
        keys.configure(Map.of(), true);
        JsonConverter values = new JsonConverter();
        values.configure(Map.of("schemas.enable", "true"), false);
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", 2);
            Object key = keys.toConnectData("flat", bytes(parts[0])).value();
            Struct record = (Struct) values.toConnectData("flat", bytes(parts[1])).value();
            record.validate();
            print("key", keys.toConnectData("flat", bytes(parts[0])).schema().type(), key);
            for (Field field : record.schema().fields()) {
                String name = field.schema().name();
                print(field.name(), name == null ? field.schema().type() : name, record.get(field));
            }
            System.out.println();
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void print(String field, Object type, Object value) {
        Object shown = value instanceof Date ? ((Date) value).getTime() : value;
        System.out.println(field + "\t" + type + "\t" + shown);
    }
}
