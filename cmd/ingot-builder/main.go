// Ingot-builder runs inside a staging instance and builds a droplet from the
// application, with the buildpacks of its plan:
//
//	ingot-builder -home DIR
//
// Its exit status is 0, or one of Cloud Foundry's: 222 no buildpack detected the
// application, 223 compile, 224 release, 225 supply, 226 finalize; 227 means
// that the disk is full. Package lifecycle implements it and documents the
// layout of DIR.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"ingot/internal/platform/run/staging/lifecycle"
)

func main() {
	home := flag.String("home", "", "the home directory of the staging instance")
	flag.Parse()
	if *home == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: ingot-builder -home DIR")
		os.Exit(2)
	}
	dir, err := filepath.Abs(*home)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ingot-builder:", err)
		os.Exit(lifecycle.ExitFailure)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	b := lifecycle.Builder{Home: dir, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()}
	status := b.Run(ctx)
	stop()
	os.Exit(status)
}
