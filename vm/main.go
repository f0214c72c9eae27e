//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: vm [FLAGS] image
       vm [FLAGS] up
`

func main() { os.Exit(do(os.Args[1:])) }

func do(args []string) int {
	flags := flag.NewFlagSet("vm", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage); flags.PrintDefaults() }
	cache := flags.String("cache", "../.tools/vm", "`directory` of images")
	mirror := flags.String("mirror", defaultMirror, "`URL` of Debian's packages")
	files := flags.String("files", "", "`directory` that the guest of up has in /files")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	var err error
	switch {
	case flags.NArg() == 1 && flags.Arg(0) == "image":
		var dir string
		if dir, err = image(ctx, *cache, *mirror); err == nil {
			fmt.Fprintln(os.Stdout, dir)
		}
	case flags.NArg() == 1 && flags.Arg(0) == "up":
		err = up(ctx, *cache, *mirror, *files)
	default:
		flags.Usage()
		return 2
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		return 1
	}
	return 0
}

// up starts a guest, for trying things out, and runs it until a signal.
func up(ctx context.Context, cache, mirror, files string) error {
	from, err := image(ctx, cache, mirror)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("/var/tmp", dirPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	reason := trial(ctx, from)
	if reason != nil {
		fmt.Fprintln(os.Stderr, "vm: by emulation, because KVM does not work here:", reason)
	}
	g, err := start(ctx, from, dir, files, reason == nil)
	if err != nil {
		return err
	}
	defer g.close()
	fmt.Fprintln(os.Stderr, "vm: starting; the console is in", dir)
	if err := g.await(ctx); err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(g.sshAddr)
	fmt.Fprintf(os.Stdout, `ssh -i %s/%s -p %s -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null root@%s  # or dev@
its port 8080 is http://%[5]s; stop it with an interrupt (Ctrl+C)
tests use it with -guest %[6]s,%[5]s
`, from, keyFile, port, host, g.webAddr, g.sshAddr)
	select {
	case <-ctx.Done():
		return nil
	case <-g.ended:
		return errors.New("the guest has ended: see " + dir)
	}
}
