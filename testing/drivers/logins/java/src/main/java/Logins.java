import com.mongodb.MongoCommandException;
import com.mongodb.MongoSecurityException;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import org.bson.Document;

/** Logs in by each connection string of LOGINS (JSON: name to string) and prints who it is then. */
public class Logins {
    public static void main(String[] arguments) {
        Document uris = Document.parse(System.getenv("LOGINS"));
        Document found = new Document();
        for (String name : uris.keySet()) {
            found.put(name, logIn(uris.getString(name)));
        }
        System.out.println(found.toJson());
    }

    private static String logIn(String uri) {
        try (MongoClient client = MongoClients.create(uri)) {
            client.getDatabase("test").getCollection("logins").insertOne(new Document("by", "java"));
            Document status = client.getDatabase("admin").runCommand(new Document("connectionStatus", 1));
            return status.get("authInfo", Document.class).getList("authenticatedUsers", Document.class).get(0).getString("user");
        } catch (MongoSecurityException error) {
            return "error " + ((MongoCommandException) error.getCause()).getCode();
        }
    }
}
