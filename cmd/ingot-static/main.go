// Ingot-static serves the files of an application that the staticfile buildpack
// built:
//
//	ingot-static [-dir DIR] [-config FILE] [-auth FILE] [-check]
//
// It listens on $PORT. FILE is a Staticfile: YAML with the keys that Cloud
// Foundry's buildpack knows (see config.go). With -check it only reports
// errors in that file, or summarizes it.
//
// Names that begin with a dot and the buildpack's own files are not served, nor
// is anything outside DIR, even through symbolic links.
//
// For the nginx buildpack it fills in an application's nginx.conf (see
// nginx.go):
//
//	ingot-static nginx-conf [-modules DIR:DIR] [-temp DIR] FILE
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ingot-static:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "nginx-conf" {
		return nginxConf(args[1:])
	}
	flags := flag.NewFlagSet("ingot-static", flag.ContinueOnError)
	dir := flags.String("dir", ".", "the directory of the application")
	configFile := flags.String("config", "", "the Staticfile")
	authFile := flags.String("auth", "", "a file of users and hashed passwords")
	check := flags.Bool("check", false, "only check the files")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := readConfig(*configFile, *authFile)
	if err != nil {
		return err
	}
	if force := os.Getenv("FORCE_HTTPS"); force == "true" || force == "1" {
		c.forceHTTPS = true
	}
	s, err := newServer(*dir, c)
	if err != nil {
		return err
	}
	defer s.root.Close()
	if *check {
		fmt.Print(c.summary())
		return nil
	}
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", net.JoinHostPort("", port))
	if err != nil {
		return err
	}
	fmt.Printf("Serving static files on port %s\n", port)
	return serve(ctx, l, s)
}

// serve answers requests until ctx is done, and waits for active ones.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 8*time.Second)
	defer cancel()
	if err := server.Shutdown(end); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
