// The app that is pushed: it answers with its index.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Whoever runs it without asking it over the network waits for this line.
	fmt.Println("listening")
	index := os.Getenv("CF_INSTANCE_INDEX")
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "instance %s\n", index)
	})}
	fmt.Fprintln(os.Stderr, s.Serve(l))
	os.Exit(1)
}
