// Logs in by each connection string of LOGINS (JSON: name to string) and prints who it is then.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func logIn(uri string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(5 * time.Second))
	if err != nil {
		return "", err
	}
	defer client.Disconnect(ctx)
	if _, err := client.Database("test").Collection("logins").InsertOne(ctx, bson.M{"by": "go"}); err != nil {
		return "", err
	}
	var found struct {
		AuthInfo struct {
			AuthenticatedUsers []struct {
				User string `bson:"user"`
			} `bson:"authenticatedUsers"`
		} `bson:"authInfo"`
	}
	err = client.Database("admin").RunCommand(ctx, bson.D{{Key: "connectionStatus", Value: 1}}).Decode(&found)
	if err != nil {
		return "", err
	}
	return found.AuthInfo.AuthenticatedUsers[0].User, nil
}

func main() {
	var uris map[string]string
	if err := json.Unmarshal([]byte(os.Getenv("LOGINS")), &uris); err != nil {
		panic(err)
	}
	found := map[string]string{}
	for name, uri := range uris {
		user, err := logIn(uri)
		var failed mongo.CommandError
		switch {
		case errors.As(err, &failed):
			user = fmt.Sprintf("error %d", failed.Code)
		case err != nil:
			user = err.Error()
		}
		found[name] = user
	}
	out, _ := json.Marshal(found)
	fmt.Println(string(out))
}
