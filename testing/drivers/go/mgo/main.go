// What applications with mgo, the Go driver before MongoDB's own, send: OP_QUERY for commands and queries, OP_GET_MORE, write commands,
// explicit getLastError, tailable cursors, GridFS and the transactions of mgo/txn, which are built on plain updates.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/globalsign/mgo"
	"github.com/globalsign/mgo/bson"
	"github.com/globalsign/mgo/txn"
)

var passed, failed int

func step(name string, run func() (string, error)) {
	begin := time.Now()
	seen, err := run()
	if err != nil {
		failed++
		fmt.Printf("  FAIL  %s: %v\n", name, err)
		return
	}
	passed++
	fmt.Printf("  ok    %s (%d ms): %s\n", name, time.Since(begin).Milliseconds(), seen)
}

func same(seen, expected interface{}) error {
	if fmt.Sprint(seen) != fmt.Sprint(expected) {
		return fmt.Errorf("seen %v, expected %v", seen, expected)
	}
	return nil
}

func first(outcomes ...error) error {
	for _, err := range outcomes {
		if err != nil {
			return err
		}
	}
	return nil
}

func main() {
	// mgo does not know directConnection
	address := strings.SplitN(strings.TrimPrefix(os.Getenv("MONGODB_URI"), "mongodb://"), "/", 2)[0]
	session, err := mgo.DialWithInfo(&mgo.DialInfo{Addrs: []string{address}, Direct: true, Timeout: 10 * time.Second})
	if err != nil {
		fmt.Println("  FAIL  dial:", err)
		os.Exit(1)
	}
	defer session.Close()
	session.SetMode(mgo.Monotonic, true)
	session.SetSafe(&mgo.Safe{})
	db := session.DB("drivers_mgo")
	if err := db.DropDatabase(); err != nil {
		fmt.Println("  FAIL  dropDatabase:", err)
		os.Exit(1)
	}
	documents := 2_000
	if os.Getenv("DRIVERS_FULL") == "1" {
		documents = 20_000
	}
	c := db.C("people")

	step("inserts, bulk, cursors of many batches", func() (string, error) {
		for from := 0; from < documents; from += 1000 {
			bulk := c.Bulk()
			for n := from; n < from+1000; n++ {
				bulk.Insert(bson.M{"_id": n, "age": n % 50, "name": fmt.Sprintf("n%d", n)})
			}
			if _, err := bulk.Run(); err != nil {
				return "", err
			}
		}
		iter := c.Find(bson.M{"age": bson.M{"$gte": 10}}).Sort("-_id").Batch(100).Prefetch(0.25).Iter()
		var one struct {
			ID  int `bson:"_id"`
			Age int
		}
		count, last := 0, documents
		for iter.Next(&one) {
			if one.ID >= last {
				return "", fmt.Errorf("%d behind %d", one.ID, last)
			}
			last = one.ID
			count++
		}
		n, err := c.Find(bson.M{"age": bson.M{"$gte": 10}}).Count()
		return fmt.Sprint(count), first(iter.Close(), err, same(count, documents*4/5), same(n, count))
	})

	step("updates, upserts, apply, removals, E11000", func() (string, error) {
		info, err := c.UpdateAll(bson.M{"age": 1}, bson.M{"$inc": bson.M{"visits": 2}})
		if err != nil {
			return "", err
		}
		upserted, err := c.UpsertId("new", bson.M{"$set": bson.M{"age": 99}})
		if err != nil {
			return "", err
		}
		var after bson.M
		_, err = c.FindId("new").Apply(mgo.Change{Update: bson.M{"$inc": bson.M{"age": 1}}, ReturnNew: true}, &after)
		if err != nil {
			return "", err
		}
		missing := c.UpdateId("absent", bson.M{"$set": bson.M{"a": 1}})
		if !errors.Is(missing, mgo.ErrNotFound) {
			return "", fmt.Errorf("update of nothing: %v", missing)
		}
		twice := c.Insert(bson.M{"_id": 1})
		if !mgo.IsDup(twice) {
			return "", fmt.Errorf("no duplicate: %v", twice)
		}
		removed, err := c.RemoveAll(bson.M{"age": 1})
		return fmt.Sprint(twice), first(err, same(info.Updated, documents/50), same(upserted.UpsertedId, "new"),
			same(after["age"], 100), same(removed.Removed, documents/50))
	})

	step("indexes, collections, explain, distinct, pipes, commands", func() (string, error) {
		err := first(c.EnsureIndex(mgo.Index{Key: []string{"name"}, Unique: true}), c.EnsureIndexKey("age", "-name"))
		if err != nil {
			return "", err
		}
		indexes, err := c.Indexes()
		if err != nil {
			return "", err
		}
		names, err := db.CollectionNames()
		if err != nil {
			return "", err
		}
		var ages []int
		var explained bson.M
		var groups []bson.M
		err = first(c.Find(nil).Distinct("age", &ages), c.Find(bson.M{"age": 5}).Explain(&explained),
			c.Pipe([]bson.M{{"$match": bson.M{"age": bson.M{"$lt": 5}}}, {"$group": bson.M{"_id": "$age", "n": bson.M{"$sum": 1}}}}).All(&groups))
		build, infoErr := session.BuildInfo()
		var result bson.M
		unknown := db.Run("nosuchcommand", &result)
		return build.Version, first(err, infoErr, same(len(indexes), 3), same(len(names) >= 1, true), same(len(groups), 4),
			same(unknown != nil, true), session.Ping(), c.DropIndex("name"))
	})

	step("a tailable cursor on a capped collection", func() (string, error) {
		capped := db.C("capped")
		if err := capped.Create(&mgo.CollectionInfo{Capped: true, MaxBytes: 1 << 20}); err != nil {
			return "", err
		}
		if err := capped.Insert(bson.M{"n": 0}); err != nil {
			return "", err
		}
		own := session.Copy()
		defer own.Close()
		iter := own.DB("drivers_mgo").C("capped").Find(nil).Tail(5 * time.Second)
		go func() {
			time.Sleep(100 * time.Millisecond)
			_ = capped.Insert(bson.M{"n": 1})
		}()
		var one struct{ N int }
		seen := []int{}
		for len(seen) < 2 && iter.Next(&one) {
			seen = append(seen, one.N)
		}
		return fmt.Sprint(seen), first(iter.Err(), same(seen, []int{0, 1}))
	})

	step("GridFS", func() (string, error) {
		content := bytes.Repeat([]byte("grid"), 200_000)
		file, err := db.GridFS("fs").Create("a.bin")
		if err != nil {
			return "", err
		}
		if _, err = file.Write(content); err != nil {
			return "", err
		}
		if err = file.Close(); err != nil {
			return "", err
		}
		stored, err := db.GridFS("fs").Open("a.bin")
		if err != nil {
			return "", err
		}
		read, err := io.ReadAll(stored)
		// MongoDB 4.0 was the last with filemd5 in drivers; mgo computes the sum itself
		return stored.MD5(), first(err, stored.Close(), same(bytes.Equal(read, content), true))
	})

	step("mgo/txn: transfers between accounts by several clients", func() (string, error) {
		accounts := db.C("accounts")
		for n := 0; n < 4; n++ {
			if err := accounts.Insert(bson.M{"_id": n, "balance": 100}); err != nil {
				return "", err
			}
		}
		var group sync.WaitGroup
		problems := make(chan error, 8)
		for client := 0; client < 4; client++ {
			group.Add(1)
			go func(client int) {
				defer group.Done()
				own := session.Copy()
				defer own.Close()
				runner := txn.NewRunner(own.DB("drivers_mgo").C("txns"))
				for n := 0; n < 5; n++ {
					from, to := client, (client+1+n%3)%4
					err := runner.Run([]txn.Op{
						{C: "accounts", Id: from, Assert: bson.M{"balance": bson.M{"$gte": 1}}, Update: bson.M{"$inc": bson.M{"balance": -1}}},
						{C: "accounts", Id: to, Update: bson.M{"$inc": bson.M{"balance": 1}}},
					}, "", nil)
					if err != nil {
						problems <- err
						return
					}
				}
			}(client)
		}
		group.Wait()
		close(problems)
		for err := range problems {
			return "", err
		}
		var sum struct{ Total int }
		err := accounts.Pipe([]bson.M{{"$group": bson.M{"_id": nil, "total": bson.M{"$sum": "$balance"}}}}).One(&sum)
		return fmt.Sprint(sum.Total), first(err, same(sum.Total, 400))
	})

	fmt.Printf("mgo: %d steps passed, %d FAILED\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
