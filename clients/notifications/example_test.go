package notifications_test

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"ingot/clients/notifications"
)

// An app with a bound service registers a kind and sends to everyone.
func Example() {
	ctx := context.Background()
	c, err := notifications.FromVCAP(os.Getenv("VCAP_SERVICES"), "")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.Register(ctx, notifications.Registration{Name: "Shop", Kinds: map[string]notifications.Kind{
		"news": {Description: "News of the shop"},
	}}); err != nil {
		fmt.Println(err)
		return
	}
	sent, err := c.Send(ctx, notifications.Send{
		KindID: "news", Audience: notifications.Everyone(), Subject: "Spring", Text: "It is spring.",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("accepted as", sent.ID)
}

// A webhook's handler verifies each call.
func ExampleEvents() {
	secret := os.Getenv("WEBHOOK_SECRET")
	http.HandleFunc("POST /notifications", func(w http.ResponseWriter, r *http.Request) {
		events, err := notifications.Events(r, secret)
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		for _, e := range events {
			fmt.Println(e.NotificationID, e.Status)
		}
	})
}
