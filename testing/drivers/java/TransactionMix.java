// The statements of sysbench-mongodb's transaction with the Java driver of 2015, which speaks OP_QUERY and expects aggregate to
// return all of its result at once: several writers load collections, then several run transactions side by side.

import com.mongodb.AggregationOutput;
import com.mongodb.BasicDBObject;
import com.mongodb.DB;
import com.mongodb.DBCollection;
import com.mongodb.DBCursor;
import com.mongodb.DBObject;
import com.mongodb.MongoClient;
import com.mongodb.MongoClientURI;
import com.mongodb.MongoException;
import com.mongodb.WriteConcern;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;

public class TransactionMix {
    static final boolean FULL = "1".equals(System.getenv("DRIVERS_FULL"));
    static final int COLLECTIONS = 4, THREADS = 4;
    static final int DOCUMENTS = FULL ? 10_000 : 1_000, TRANSACTIONS = FULL ? 500 : 50;
    static int passed, failed;

    interface Step { String run() throws Exception; }

    static void step(String name, Step step) {
        long begin = System.nanoTime();
        try {
            String seen = step.run();
            passed++;
            System.out.printf("  ok    %s (%d ms): %s%n", name, (System.nanoTime() - begin) / 1_000_000, seen);
        } catch (Throwable error) {
            failed++;
            System.out.printf("  FAIL  %s: %s%n", name, error);
        }
    }

    static void same(Object seen, Object expected) {
        if (!expected.equals(seen)) throw new AssertionError("seen " + seen + ", expected " + expected);
    }

    static DBObject document(int id, Random random) {
        return new BasicDBObject("_id", id).append("k", random.nextInt(DOCUMENTS) + 1)
            .append("c", Long.toString(Math.abs(random.nextLong()))).append("pad", "x".repeat(60));
    }

    static void inParallel(java.util.function.IntFunction<Step> work) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        List<Future<String>> running = new ArrayList<>();
        for (int n = 0; n < THREADS; n++) {
            Step step = work.apply(n);
            running.add(pool.submit(step::run));
        }
        for (Future<String> one : running) one.get();
        pool.shutdown();
    }

    static int drain(DBCursor cursor) {
        int count = 0;
        for (DBObject ignored : cursor) count++;
        return count;
    }

    static DBObject range(int from, int length) {
        return new BasicDBObject("_id", new BasicDBObject("$gte", from).append("$lte", from + length - 1));
    }

    static long transaction(DB db, Random random, AtomicLong reads) {
        DBCollection collection = db.getCollection("sbtest" + (random.nextInt(COLLECTIONS) + 1));
        int last = DOCUMENTS - 100;
        for (int n = 0; n < 10; n++) {
            DBObject found = collection.findOne(new BasicDBObject("_id", random.nextInt(last) + 1), new BasicDBObject("c", 1).append("_id", 0));
            if (found != null) reads.incrementAndGet();
        }
        same(drain(collection.find(range(random.nextInt(last) + 1, 100), new BasicDBObject("c", 1).append("_id", 0))) > 90, true);
        AggregationOutput sum = collection.aggregate(Arrays.<DBObject>asList(
            new BasicDBObject("$match", range(random.nextInt(last) + 1, 100)),
            new BasicDBObject("$project", new BasicDBObject("k", 1).append("_id", 0)),
            new BasicDBObject("$group", new BasicDBObject("_id", null).append("sum", new BasicDBObject("$sum", "$k")))));
        same(((Number) sum.results().iterator().next().get("sum")).longValue() > 0, true);
        same(drain(collection.find(range(random.nextInt(last) + 1, 100)).sort(new BasicDBObject("c", 1))) > 90, true);
        collection.distinct("c", range(random.nextInt(last) + 1, 100));
        collection.update(new BasicDBObject("_id", random.nextInt(last) + 1), new BasicDBObject("$inc", new BasicDBObject("k", 1)), false, false);
        collection.update(new BasicDBObject("_id", random.nextInt(last) + 1),
            new BasicDBObject("$set", new BasicDBObject("c", Long.toString(random.nextLong()))), false, false);
        int id = random.nextInt(last) + 1;
        collection.remove(new BasicDBObject("_id", id));
        try {
            collection.insert(document(id, random));
        } catch (MongoException.DuplicateKey another) {
            return 0; // another thread was faster with the same document
        }
        return 1;
    }

    public static void main(String[] arguments) throws Exception {
        java.util.logging.Logger.getLogger("com.mongodb").setLevel(java.util.logging.Level.SEVERE);
        MongoClient client = new MongoClient(new MongoClientURI(System.getenv("MONGODB_URI")));
        client.setWriteConcern(WriteConcern.ACKNOWLEDGED);
        DB db = client.getDB("drivers_transaction_mix");
        db.dropDatabase();
        step("several writers load collections with a secondary index", () -> {
            inParallel(n -> () -> {
                DBCollection collection = db.getCollection("sbtest" + (n + 1));
                collection.createIndex(new BasicDBObject("k", 1));
                Random random = new Random(n);
                for (int from = 1; from <= DOCUMENTS; from += 500) {
                    List<DBObject> batch = new ArrayList<>();
                    for (int id = from; id < from + 500; id++) batch.add(document(id, random));
                    collection.insert(batch);
                }
                return "";
            });
            for (int n = 1; n <= COLLECTIONS; n++) same(db.getCollection("sbtest" + n).count(), (long) DOCUMENTS);
            return COLLECTIONS + " collections of " + DOCUMENTS;
        });
        step("transactions: points, ranges, sums, sorts, distinct, updates, a deletion and an insertion", () -> {
            AtomicLong reads = new AtomicLong(), whole = new AtomicLong();
            inParallel(n -> () -> {
                Random random = new Random(100 + n);
                for (int t = 0; t < TRANSACTIONS; t++) whole.addAndGet(transaction(db, random, reads));
                return "";
            });
            same(whole.get() > THREADS * TRANSACTIONS * 9 / 10, true);
            same(reads.get() > THREADS * TRANSACTIONS * 9, true);
            for (int n = 1; n <= COLLECTIONS; n++) same(db.getCollection("sbtest" + n).count(), (long) DOCUMENTS);
            return whole.get() + " transactions, " + reads.get() + " points";
        });
        step("what else that driver asks: statistics, indexes, a failed command, an aggregation cursor", () -> {
            DBCollection collection = db.getCollection("sbtest1");
            same(((Number) collection.getStats().get("count")).intValue(), DOCUMENTS);
            same(collection.getIndexInfo().size(), 2);
            same(db.getCollectionNames().contains("sbtest4"), true);
            same(db.command("nosuchcommand").ok(), false);
            same(db.getLastError().ok(), true);
            com.mongodb.Cursor cursor = collection.aggregate(Arrays.<DBObject>asList(new BasicDBObject("$limit", 250)),
                com.mongodb.AggregationOptions.builder().batchSize(100).outputMode(com.mongodb.AggregationOptions.OutputMode.CURSOR).build());
            int count = 0;
            while (cursor.hasNext()) { cursor.next(); count++; }
            same(count, 250);
            return client.getVersion();
        });
        client.close();
        System.out.printf("TransactionMix: %d steps passed, %d FAILED%n", passed, failed);
        System.exit(failed == 0 ? 0 : 1);
    }
}
