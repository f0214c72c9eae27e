package web_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

// A route states who may call it, and a handler returns its error.
func ExampleGroup_Handle() {
	log := slog.New(slog.DiscardHandler)
	mux := web.NewMux(web.FormatV3, log, nil)
	api := mux.Group("example", web.FormatV3, nil)
	show := func(w http.ResponseWriter, r *http.Request) error {
		if web.Param(r, "guid") != "1" {
			return fault.New(fault.NotFound, "App not found")
		}
		web.WriteJSON(w, http.StatusOK, map[string]string{"name": "shop"})
		return nil
	}
	api.Handle(http.MethodGet, "/v3/apps/{guid}", web.Public("an example has no users"), show)
	for _, path := range []string{"/v3/apps/1", "/v3/apps/2"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 {"name":"shop"}
	//
	// 404 {"errors":[{"code":10010,"title":"CF-ResourceNotFound","detail":"App not found"}]}
}

// The address of a client counts only if a trusted proxy reports it.
func ExampleProxies_Client() {
	trusted, err := web.ParseProxies("10.0.0.0/8")
	if err != nil {
		panic(err)
	}
	for _, from := range []string{"10.0.0.7:4711", "192.0.2.9:4711"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = from
		r.Header.Set("X-Forwarded-For", "198.51.100.1")
		fmt.Println(trusted.Client(r))
	}
	// Output:
	// 198.51.100.1
	// 192.0.2.9
}
