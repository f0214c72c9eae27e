package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
)

// List reads all pages of a list.
func ExampleList() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("page") {
		case "2":
			fmt.Fprint(w, `{"pagination": {}, "resources": [{"name": "blog"}]}`)
		default:
			next := "http://" + r.Host + "/v3/apps?page=2"
			fmt.Fprintf(w, `{"pagination": {"next": {"href": %q}}, "resources": [{"name": "shop"}]}`, next)
		}
	}))
	defer api.Close()
	c := client.New(api.URL, client.Trust{}, client.Tokens{})
	defer c.Close()
	apps, err := client.List[cfapi.App](context.Background(), c, "/v3/apps", nil)
	for _, a := range apps {
		fmt.Println(a.Name)
	}
	fmt.Println(err)
	// Output:
	// shop
	// blog
	// <nil>
}

// The message of an error is the API's; its status can be asked for.
func ExampleStatus() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"errors": [{"code": 10010, "title": "CF-ResourceNotFound", "detail": "App not found"}]}`)
	}))
	defer api.Close()
	c := client.New(api.URL, client.Trust{}, client.Tokens{})
	defer c.Close()
	err := c.Get(context.Background(), "/v3/apps/1", nil, nil)
	fmt.Println(client.Status(err), err)
	// Output: 404 App not found
}
