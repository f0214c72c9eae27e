package system

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// attackedSite is a server with a space, which another client calls all the time.
func attackedSite(t *testing.T) *faultySite {
	t.Helper()
	f := &faultySite{T: t, System: startSystem(t, testConfig(t))}
	f.api, f.token = f.Endpoints().API, adminToken(t, f.System)
	org := f.create("/v3/organizations", map[string]any{"name": "attacked"})
	f.space = f.create("/v3/spaces", map[string]any{"name": "attacked", "relationships": to("organization", org)})
	return f
}

// meanwhile does something while another client asks all the time, and is always
// answered.
func (f *faultySite) meanwhile(do func()) {
	f.Helper()
	ctx, stop := context.WithCancel(f.Context())
	var asking sync.WaitGroup
	var asked int
	var bad []string
	asking.Go(func() { asked, bad = f.answers(ctx) })
	do()
	stop()
	asking.Wait()
	f.Logf("%d answers meanwhile", asked)
	if asked == 0 || len(bad) != 0 {
		f.Errorf("%d requests meanwhile, not answered: %q", asked, bad)
	}
}

// zeros is a compressed row of n megabytes of zeroes, and its checksum.
func zeros(t *testing.T, megabytes int) (deflated []byte, sum uint32) {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	for range megabytes {
		if _, err := w.Write(block); err != nil {
			t.Fatal(err)
		}
		sum = crc32.Update(sum, crc32.IEEETable, block)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), sum
}

// entry is one of an archive: a file, a directory (with a slash at its end), or a
// link when it has a target.
type entry struct{ name, target string }

func zipped(t *testing.T, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name}
		h.SetMode(0o644)
		if e.target != "" {
			h.SetMode(fs.ModeSymlink | 0o777)
		}
		w, err := z.CreateHeader(h)
		if err == nil && e.target != "" {
			_, err = io.WriteString(w, e.target)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func tarred(t *testing.T, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	g, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(g)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Typeflag: tar.TypeReg}
		switch {
		case e.target != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.target
		case strings.HasSuffix(e.name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zipBomb has files of 4 MiB of zeroes, gigabytes in all. Larger files would be the
// same bomb, but compressing them with the race detector takes long.
func zipBomb(t *testing.T, gigabytes int) []byte {
	t.Helper()
	deflated, sum := zeros(t, 4)
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := range gigabytes * 256 {
		w, err := z.CreateRaw(&zip.FileHeader{
			Name: fmt.Sprintf("app/%d", i), Method: zip.Deflate, CRC32: sum, CompressedSize64: uint64(len(deflated)),
			UncompressedSize64: 4 << 20,
		})
		if err == nil {
			_, err = w.Write(deflated)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// tarBomb is a compressed tar with one file of zeroes, made of many compressed
// streams one after the other.
func tarBomb(t *testing.T, gigabytes int) []byte {
	t.Helper()
	var head, block bytes.Buffer
	if err := tar.NewWriter(&head).WriteHeader(&tar.Header{Name: "app/zeros", Mode: 0o644,
		Size: int64(gigabytes) << 30}); err != nil {
		t.Fatal(err)
	}
	compress := func(out *bytes.Buffer, content []byte) {
		g := gzip.NewWriter(out)
		if _, err := g.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	}
	compress(&block, make([]byte, 1<<20))
	var out bytes.Buffer
	compress(&out, head.Bytes())
	out.Write(bytes.Repeat(block.Bytes(), gigabytes*1024))
	compress(&out, make([]byte, 1024))
	return out.Bytes()
}

// upload sends a file, as a client does.
func (f *faultySite) upload(path, name string, content []byte) answer {
	f.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("bits", name)
	if err == nil {
		_, err = part.Write(content)
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		f.Error(err)
		return answer{}
	}
	req, err := http.NewRequestWithContext(f.Context(), http.MethodPost, f.api+path, &body)
	if err != nil {
		f.Error(err)
		return answer{}
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("Authorization", "bearer "+f.token)
	client := &http.Client{Timeout: 5 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		f.Error(err)
		return answer{}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		f.Error(err)
		return answer{}
	}
	return answer{res.StatusCode, res.Header, string(text)}
}

// TestSoakArchives uploads archives that are made to hurt as packages, buildpacks
// and droplets: bombs, entries without number or deep down, links that lead out.
// All are refused with a reason, nothing of them stays, and another client is
// answered all the time. INGOT_SOAK=1 has larger ones, several at once.
func TestSoakArchives(t *testing.T) {
	t.Parallel()
	size, rounds, many := 4, 1, 100_001
	if os.Getenv("INGOT_SOAK") == "1" {
		size, rounds, many = 64, 5, 2_000_000
	}
	f := attackedSite(t)
	app := f.create("/v3/apps", map[string]any{"name": "a", "relationships": to("space", f.space)})
	var crowd []entry
	for i := range many {
		crowd = append(crowd, entry{name: fmt.Sprintf("app/%d", i)})
	}
	attacks := map[string][]entry{
		"crowd": crowd, "deep": {{name: strings.Repeat("d/", 3000) + "x"}}, "parent": {{name: "../../attacked"}},
		"absolute":     {{name: "/tmp/attacked"}},
		"through link": {{"app/l", "."}, {name: "app/l/x"}}, "circle": {{"app/a", "b"}, {"app/b", "a"}, {name: "app/a/x"}},
		"long name": {{name: strings.Repeat("n", 5000)}},
	}
	zips, tars := map[string][]byte{"bomb": zipBomb(t, size), "no archive": []byte("PK\x03\x04 no archive")},
		map[string][]byte{"bomb": tarBomb(t, 4*size), "no archive": []byte("\x1f\x8b no archive")}
	for name, entries := range attacks {
		zips[name], tars[name] = zipped(t, entries), tarred(t, entries)
	}
	zips["link out"] = zipped(t, []entry{{"app/l", "../../../etc/passwd"}})
	before := used(t, f.Endpoints().DataDir)
	f.meanwhile(func() {
		for range rounds {
			var all sync.WaitGroup
			try := func(what, path, name string, content []byte) {
				all.Go(func() {
					a := f.upload(path, name, content)
					failed := a.status >= 400 && a.status < 500 || strings.Contains(a.body, `"state":"FAILED"`)
					if !failed || !strings.Contains(a.body, "The archive is not valid: ") {
						f.Errorf("%s: answer is %d %s, want an archive that is not valid", what, a.status, a.body)
					}
				})
			}
			for name, content := range zips {
				pkg := f.create("/v3/packages", map[string]any{"type": "bits", "relationships": to("app", app)})
				try("package: "+name, "/v3/packages/"+pkg+"/upload", "a.zip", content)
				buildpack := f.create("/v3/buildpacks", map[string]any{"name": "b-" + pkg})
				try("buildpack: "+name, "/v3/buildpacks/"+buildpack+"/upload", "b.zip", content)
				all.Wait()
			}
			for name, content := range tars {
				droplet := f.create("/v3/droplets", map[string]any{"relationships": to("app", app)})
				try("droplet: "+name, "/v3/droplets/"+droplet+"/upload", "d.tgz", content)
			}
			all.Wait()
		}
	})
	if grown := used(t, f.Endpoints().DataDir) - before; grown > 16<<20 {
		t.Errorf("the data directory has %d MiB more than before", grown>>20)
	}
}

// used is the size of all files below a directory.
func used(t *testing.T, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // files come and go
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestSoakRequestFlood has clients that connect and say nothing, that send their
// request a byte at a time, that send headers without end, and that do not read
// what they asked for. Another client is answered all the time. What never
// becomes a request is closed. INGOT_SOAK=1 has more of them, for longer.
func TestSoakRequestFlood(t *testing.T) {
	t.Parallel()
	clients, rounds := 50, 1
	if os.Getenv("INGOT_SOAK") == "1" {
		clients, rounds = 1000, 10
	}
	f := attackedSite(t)
	address := strings.TrimPrefix(f.api, "http://")
	head := "GET /v3/apps HTTP/1.1\r\nHost: " + address + "\r\nAuthorization: bearer " + f.token + "\r\n"
	kinds := map[string]func(net.Conn) error{
		"silent": func(net.Conn) error { return nil },
		"half a request": func(c net.Conn) error {
			_, err := io.WriteString(c, head)
			return err
		},
		"slow header": func(c net.Conn) error {
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(c, "%cX-%d: y\r\n", head[i%len(head)], i); err != nil {
					return nil //nolint:nilerr // it was closed, which is right
				}
				select {
				case <-f.Context().Done():
					return nil
				case <-time.After(300 * time.Millisecond):
				}
			}
		},
		"endless header": func(c net.Conn) error {
			line := "X-Long: " + strings.Repeat("x", 8000) + "\r\n"
			for {
				if _, err := io.WriteString(c, line); err != nil {
					return nil //nolint:nilerr // it was closed, which is right
				}
			}
		},
		"no HTTP": func(c net.Conn) error {
			_, err := c.Write(bytes.Repeat([]byte{0x16, 3, 1, 0, 0xff}, 20))
			return err
		},
	}
	f.meanwhile(func() {
		for range rounds {
			var all sync.WaitGroup
			for name, behave := range kinds {
				for range clients {
					all.Go(func() {
						c, err := net.Dial("tcp", address)
						if err != nil {
							t.Errorf("%s: %v", name, err)
							return
						}
						defer c.Close()
						var talking sync.WaitGroup
						talking.Go(func() {
							if err := behave(c); err != nil {
								t.Errorf("%s: %v", name, err)
							}
						})
						// The server ends it: with a refusal, or without a word.
						_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
						text, err := io.ReadAll(c)
						if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // of the connection itself
							t.Errorf("%s: the connection is still open", name)
						}
						if len(text) > 0 && !strings.HasPrefix(string(text), "HTTP/1.1 4") {
							t.Errorf("%s: answer is %.100q, want none or a status of 4xx", name, text)
						}
						c.Close()
						talking.Wait()
					})
				}
			}
			// These asked for something, and have as long as they like; they go.
			var deaf []net.Conn
			for range clients {
				c, err := net.Dial("tcp", address)
				if err == nil {
					_, err = io.WriteString(c, strings.Repeat(head+"\r\n", 50))
				}
				if err != nil {
					t.Error(err)
				}
				deaf = append(deaf, c)
			}
			all.Wait()
			for _, c := range deaf {
				if c != nil {
					c.Close()
				}
			}
		}
	})
}
