// Command app is what tests push in the guest. It does what an app should not, when it is
// asked to.
//
//	GET /            the word of the variable WORD
//	GET /eat/{mb}    takes memory
//	GET /fork/{n}    starts processes, and says how many were started
//	GET /fill/{mb}   writes a file, and says how much was written
//	GET /touch/{name}  makes an empty file for the sidecar
//
// Called as `app hog FILE MB`, it waits for the file and takes memory: a sidecar.
package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const mega = 1 << 20

func main() {
	if len(os.Args) == 4 && os.Args[1] == "hog" {
		mb, _ := strconv.Atoi(os.Args[3])
		for {
			if err := os.Remove(os.Args[2]); err == nil { // not again when it is restarted
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		_, _ = eat(mb) // it has no error
		select {}
	}
	http.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, os.Getenv("WORD")) })
	http.HandleFunc("GET /touch/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, os.WriteFile(filepath.Base(r.PathValue("name")), nil, 0o600))
	})
	for path, deed := range map[string]func(n int) (int, error){"eat": eat, "fork": fork, "fill": fill} {
		http.HandleFunc("GET /"+path+"/{n}", func(w http.ResponseWriter, r *http.Request) {
			n, err := strconv.Atoi(r.PathValue("n"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			done, err := deed(n)
			fmt.Fprintln(w, done, err)
		})
	}
	server := &http.Server{Addr: ":" + os.Getenv("PORT"), ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

var eaten [][]byte

// eat takes memory, megabyte by megabyte, and writes to it so that it is really used.
func eat(mb int) (int, error) {
	for range mb {
		eaten = append(eaten, bytes.Repeat([]byte{1}, mega))
	}
	return mb, nil
}

// fork starts processes that stay for a minute.
func fork(n int) (int, error) {
	for i := range n {
		if err := exec.Command("sleep", "60").Start(); err != nil { //nolint:noctx // it outlives the request
			return i, err
		}
	}
	return n, nil
}

// fill writes to the disk.
func fill(mb int) (int, error) {
	f, err := os.Create("fill")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block := bytes.Repeat([]byte{1}, mega)
	for i := range mb {
		if _, err := f.Write(block); err != nil {
			return i, err
		}
	}
	return mb, f.Sync()
}
