// Probe is the app that the end-to-end tests push. It does what its paths say,
// and reports its environment.
//
//	probe                 serves on $PORT
//	probe exit CODE       leaves at once
//	probe deaf            runs and never listens
//	probe sidecar FILE    writes its process id to the file and goes on; where it
//	                      listens, on the loopback only, is in FILE.address
//	probe beside NAME PORT serves on the port of every address, on the sockets
//	                       NAME.sock and @NAME, and writes the file NAME.txt
//
// With NUMBERS=DURATION it writes a numbered line each time that passes.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	if every, err := time.ParseDuration(os.Getenv("NUMBERS")); err == nil {
		go number(every)
	}
	args := os.Args[1:]
	if len(args) == 0 {
		serve()
	}
	// Before it says that it is here: then others may send it.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	switch args[0] {
	case "exit":
		code, _ := strconv.Atoi(args[1])
		fmt.Println("leaving with", code)
		os.Exit(code)
	case "elsewhere": // listens on another port than PORT
		l, err := net.Listen("tcp", ":"+args[1])
		must(err)
		go func() { must(http.Serve(l, http.HandlerFunc(aside))) }() //nolint:gosec // an app for tests
	case "mortal": // serves, and exits after a time, or a random one below that
		d, err := time.ParseDuration(args[1])
		must(err)
		if len(args) > 2 {
			d = rand.N(d)
		}
		time.AfterFunc(d, func() {
			fmt.Fprintln(os.Stderr, "panic: it dies after", d)
			os.Exit(9)
		})
		serve()
	case "deaf":
		fmt.Println("not listening")
	case "sidecar":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(err)
		go func() { must(http.Serve(l, http.HandlerFunc(aside))) }() //nolint:gosec // an app for tests
		must(os.WriteFile(args[1]+".address", []byte(l.Addr().String()), 0o600))
		must(os.WriteFile(args[1], []byte(strconv.Itoa(os.Getpid())), 0o600))
		fmt.Println("the sidecar is here")
	case "beside":
		beside(args[1], args[2])
	default:
		fmt.Fprintln(os.Stderr, "unknown word", args[0])
		os.Exit(2)
	}
	<-stop
}

// aside is what a sidecar answers.
func aside(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, "sidecar of %s\n", os.Getenv("CF_INSTANCE_INDEX"))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// written is the last number.
var written atomic.Int64

// number writes numbered lines, so that a missing or repeated one is noticed.
func number(every time.Duration) {
	instance := os.Getenv("CF_INSTANCE_GUID")
	tick := time.NewTicker(every)
	for i := int64(1); ; i++ {
		fmt.Printf("number %s %d\n", instance, i)
		written.Store(i)
		<-tick.C
	}
}

// beside is a sidecar that can be reached in every way there is.
func beside(name, port string) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s\n", name, os.Getenv("CF_INSTANCE_INDEX"), r.URL.Path)
	})
	for address, network := range map[string]string{":" + port: "tcp", name + ".sock": "unix", "@" + name: "unix"} {
		l, err := net.Listen(network, address)
		must(err)
		go func() { must(http.Serve(l, answer)) }() //nolint:gosec // an app for tests
	}
	must(os.WriteFile(name+".txt", []byte(name), 0o600))
	fmt.Println(name, "is here")
}

func serve() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "probe %s %s\n", os.Getenv("CF_INSTANCE_INDEX"), r.URL.Path)
	})
	http.HandleFunc("/env", func(w http.ResponseWriter, _ *http.Request) {
		all := map[string]string{}
		for _, one := range os.Environ() {
			name, value, _ := strings.Cut(one, "=")
			all[name] = value
		}
		reply(w, all)
	})
	http.HandleFunc("/where", func(w http.ResponseWriter, _ *http.Request) {
		dir, _ := os.Getwd()
		self, _ := os.Readlink("/proc/self/ns/pid")
		reply(w, map[string]any{"number": written.Load(), "pid": os.Getpid(), "uid": os.Getuid(), "dir": dir,
			"namespace": self})
	})
	// It is not ready until a file is deleted: no request reaches it meanwhile. The answer has
	// the index and the file.
	http.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat("unready"); err == nil {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/unready", func(w http.ResponseWriter, _ *http.Request) {
		must(os.WriteFile("unready", nil, 0o600))
		dir, _ := os.Getwd()
		fmt.Fprintln(w, os.Getenv("CF_INSTANCE_INDEX"), filepath.Join(dir, "unready"))
	})
	// Neither of the two answers.
	http.HandleFunc("/crash", func(http.ResponseWriter, *http.Request) {
		fmt.Println("crashing")
		must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	})
	http.HandleFunc("/exit", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		os.Exit(code)
	})
	http.HandleFunc("/stdout", func(_ http.ResponseWriter, r *http.Request) { fmt.Println(r.FormValue("text")) })
	http.HandleFunc("/stderr", func(_ http.ResponseWriter,
		r *http.Request) {
		fmt.Fprintln(os.Stderr, r.FormValue("text"))
	})
	http.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		long, _ := time.ParseDuration(r.FormValue("for"))
		time.Sleep(long)
		fmt.Fprintln(w, "slept", long)
	})
	// Kills the process whose id is in a file.
	http.HandleFunc("/kill", func(w http.ResponseWriter, r *http.Request) {
		text, err := os.ReadFile(r.FormValue("file"))
		if err == nil {
			var pid int
			if pid, err = strconv.Atoi(string(text)); err == nil {
				err = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		outcome(w, err)
	})
	// Uses memory until there is none.
	http.HandleFunc("/eat", func(http.ResponseWriter, *http.Request) {
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
			_ = all
		}
	})
	http.HandleFunc("/try", try)
	must(http.ListenAndServe(":"+os.Getenv("PORT"), nil)) //nolint:gosec // an app for tests
}

// try attempts what an app should not be able to do, and says what came of it:
// nothing when it succeeded, else the error.
func try(w http.ResponseWriter, r *http.Request) {
	what := r.FormValue("what")
	var err error
	switch r.FormValue("how") {
	case "read":
		_, err = os.ReadFile(what)
	case "list":
		_, err = os.ReadDir(what)
	case "write":
		err = os.WriteFile(filepath.Join(what, "written-by-probe"), []byte("x"), 0o600)
	case "dial":
		err = dial("tcp", what)
	case "socket":
		err = dial("unix", what)
	case "listen":
		var l net.Listener
		if l, err = net.Listen("tcp", what); err == nil {
			l.Close()
		}
	case "signal": // only asks whether it could
		pid, _ := strconv.Atoi(what)
		err = syscall.Kill(pid, 0)
	case "fork":
		n, _ := strconv.Atoi(what)
		err = fork(n)
	case "mount":
		err = syscall.Mount("none", what, "tmpfs", 0, "")
	default:
		err = errors.New("no such attempt")
		w.WriteHeader(http.StatusBadRequest)
	}
	outcome(w, err)
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 3*time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// fork has that many processes at once.
func fork(n int) error {
	var all []*os.Process
	defer func() {
		for _, p := range all {
			_ = p.Kill()
			_, _ = p.Wait()
		}
	}()
	for range n {
		p, err := os.StartProcess("/bin/sleep", []string{"sleep", "60"}, &os.ProcAttr{Env: []string{}})
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	return nil
}

func outcome(w http.ResponseWriter, err error) {
	if err != nil {
		_, _ = io.WriteString(w, err.Error())
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
