package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// server answers requests with files below a directory.
type server struct {
	config
	root *os.Root
	fs   fs.FS

	mu sync.Mutex
	// known caches the checksums of valid user names and passwords, because
	// verifying a hash is slow by design.
	known map[[32]byte]bool
}

func newServer(dir string, c config) (*server, error) {
	app, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer app.Close()
	root, err := app.OpenRoot(c.root)
	if err != nil {
		return nil, fmt.Errorf("the root folder of the Staticfile: %w", err)
	}
	return &server{config: c, root: root, fs: root.FS(), known: map[[32]byte]bool{}}, nil
}

// reserved are the application's configuration files, which are not served.
var reserved = []string{"Staticfile", "Staticfile.auth", "Procfile", "manifest.yml", "manifest.yaml", "stackato.yml"}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.forceHTTPS && !secure(r) {
		to := url.URL{Scheme: "https", Host: r.Host, Path: r.URL.Path, RawQuery: r.URL.RawQuery}
		http.Redirect(w, r, to.String(), http.StatusMovedPermanently)
		return
	}
	h := w.Header()
	if s.hsts != "" {
		h.Set("Strict-Transport-Security", s.hsts)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		s.fail(w, r, http.StatusMethodNotAllowed)
		return
	}
	if s.users != nil && !s.allowed(r) {
		h.Set("WWW-Authenticate", `Basic realm="Restricted", charset="UTF-8"`)
		s.fail(w, r, http.StatusUnauthorized)
		return
	}
	s.find(w, r)
}

// secure reports whether the client used TLS. Without the header no router was
// involved, and a redirect would lead nowhere.
func secure(r *http.Request) bool {
	proto := r.Header.Get("X-Forwarded-Proto")
	return proto == "" || strings.EqualFold(proto, "https")
}

func (s *server) allowed(r *http.Request) bool {
	name, password, ok := r.BasicAuth()
	if !ok {
		return false
	}
	hash, found := s.users[name]
	key := sha256.Sum256([]byte(name + "\x00" + password))
	s.mu.Lock()
	right := s.known[key]
	s.mu.Unlock()
	if right {
		return true
	}
	if !found || !passwordMatches(hash, password) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) < 1000 {
		s.known[key] = true
	}
	return true
}

// hidden reports whether a file must not be served.
func (s *server) hidden(name string) bool {
	if s.config.root == "." && slices.Contains(reserved, name) {
		return true
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == ".profile" || part == ".profile.d" || part == ".git":
			return true
		case len(part) > 1 && part[0] == '.' && !s.dotFiles && part != ".well-known":
			return true
		}
	}
	return false
}

func (s *server) find(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	if name == "" {
		name = "."
	}
	if !fs.ValidPath(name) || strings.ContainsRune(name, 0) || s.hidden(name) {
		s.missing(w, r)
		return
	}
	info, err := fs.Stat(s.fs, name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		s.fail(w, r, http.StatusForbidden)
	case err != nil:
		s.missing(w, r) // not found, or a link to the outside
	case info.IsDir():
		s.directory(w, r, name)
	case !info.Mode().IsRegular():
		s.missing(w, r)
	case strings.HasSuffix(r.URL.Path, "/"):
		s.missing(w, r)
	default:
		s.file(w, r, name, http.StatusOK)
	}
}

func (s *server) directory(w http.ResponseWriter, r *http.Request, name string) {
	if !strings.HasSuffix(r.URL.Path, "/") {
		// Relative, so that it is correct behind any router.
		to := url.URL{Path: path.Base(r.URL.Path) + "/", RawQuery: r.URL.RawQuery}
		if strings.Contains(to.Path, ":") {
			to.Path = "./" + to.Path
		}
		w.Header().Set("Location", to.String())
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	for _, index := range []string{"index.html", "index.htm"} {
		if info, err := fs.Stat(s.fs, path.Join(name, index)); err == nil && info.Mode().IsRegular() {
			s.file(w, r, path.Join(name, index), http.StatusOK)
			return
		}
	}
	switch {
	case s.listing:
		s.list(w, r, name)
	case s.pushstate:
		s.missing(w, r)
	default:
		s.fail(w, r, http.StatusForbidden)
	}
}

// missing answers a path that does not exist: with pushstate it belongs to the
// application in the browser, unless it looks like a file.
func (s *server) missing(w http.ResponseWriter, r *http.Request) {
	if s.pushstate && !strings.Contains(path.Base(r.URL.Path), ".") {
		if info, err := fs.Stat(s.fs, "index.html"); err == nil && info.Mode().IsRegular() {
			s.file(w, r, "index.html", http.StatusOK)
			return
		}
	}
	s.fail(w, r, http.StatusNotFound)
}

func (s *server) fail(w http.ResponseWriter, r *http.Request, status int) {
	page, ok := s.pages[status]
	if ok {
		if info, err := fs.Stat(s.fs, page); err == nil && info.Mode().IsRegular() {
			s.file(w, r, page, status)
			return
		}
	}
	http.Error(w, http.StatusText(status), status)
}

// compressible reports whether a content type is worth compressing.
func compressible(kind string) bool {
	kind, _, _ = strings.Cut(kind, ";")
	switch kind {
	case "application/javascript", "application/json", "application/xml", "application/xhtml+xml", "application/wasm",
		"application/manifest+json", "application/rss+xml", "application/atom+xml", "image/svg+xml", "font/ttf",
		"image/x-icon":
		return true
	}
	return strings.HasPrefix(kind, "text/")
}

const minCompressed = 512

func (s *server) file(w http.ResponseWriter, r *http.Request, name string, status int) {
	f, err := s.fs.Open(name)
	if err != nil {
		http.Error(w, http.StatusText(http.StatusForbidden), http.StatusForbidden)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	body, seekable := f.(io.ReadSeeker)
	if err != nil || !seekable {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" {
		kind = "application/octet-stream"
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	etag := fmt.Sprintf("%x-%x", info.ModTime().UnixNano(), info.Size())
	packed := compressible(kind)
	if packed {
		h.Add("Vary", "Accept-Encoding")
	}
	if packed && info.Size() >= minCompressed && r.Header.Get("Range") == "" && acceptsGzip(r) {
		s.packed(w, r, body, `W/"`+etag+`-gz"`, status)
		return
	}
	if status != http.StatusOK { // error pages have no ranges or conditions
		h.Set("Content-Length", fmt.Sprint(info.Size()))
		w.WriteHeader(status)
		if r.Method != http.MethodHead {
			_, _ = io.Copy(w, body) // the client may be gone
		}
		return
	}
	h.Set("ETag", `"`+etag+`"`)
	http.ServeContent(w, r, name, info.ModTime(), body)
}

var compressors = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

func (s *server) packed(w http.ResponseWriter, r *http.Request, body io.Reader, etag string, status int) {
	h := w.Header()
	h.Set("ETag", etag)
	if status == http.StatusOK && slices.Contains(splitList(r.Header.Get("If-None-Match")), etag) {
		h.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	z, ok := compressors.Get().(*gzip.Writer)
	if !ok {
		return
	}
	defer compressors.Put(z)
	z.Reset(w)
	if _, err := io.Copy(z, body); err == nil {
		_ = z.Close() // the client may be gone
	}
}

func splitList(header string) []string {
	var out []string
	for part := range strings.SplitSeq(header, ",") {
		out = append(out, strings.TrimSpace(part))
	}
	return out
}

func acceptsGzip(r *http.Request) bool {
	for _, part := range splitList(r.Header.Get("Accept-Encoding")) {
		coding, q, _ := strings.Cut(part, ";")
		q = strings.ReplaceAll(q, " ", "")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") && q != "q=0" && q != "q=0.0" {
			return true
		}
	}
	return false
}

var listing = template.Must(template.New("listing").Parse(`<!doctype html>
<meta charset="utf-8">
<title>Index of {{.Path}}</title>
<h1>Index of {{.Path}}</h1>
<ul>
{{if ne .Path "/"}}<li><a href="../">../</a></li>
{{end}}{{range .Names}}<li><a href="./{{.}}">{{.}}</a></li>
{{end}}</ul>
`))

func (s *server) list(w http.ResponseWriter, r *http.Request, name string) {
	entries, err := fs.ReadDir(s.fs, name)
	if err != nil {
		s.fail(w, r, http.StatusForbidden)
		return
	}
	page := struct {
		Path  string
		Names []string
	}{Path: path.Clean("/" + r.URL.Path)}
	for _, e := range entries {
		if s.hidden(path.Join(name, e.Name())) {
			continue
		}
		label := e.Name()
		if e.IsDir() {
			label += "/"
		}
		page.Names = append(page.Names, label)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if r.Method == http.MethodHead {
		return
	}
	_ = listing.Execute(w, page) // the client may be gone
}
