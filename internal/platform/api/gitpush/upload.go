package gitpush

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/gitpack"
)

// Limits of a request to fetch. A client names all its own commits, of which a server only has to read the names: it
// does not keep them.
const (
	maxWants = 1000
	maxHaves = 32 << 20 // bytes, also of a compressed request
)

// upload sends the whole repository: what the client has already is not looked for.
func (a *API) upload(w http.ResponseWriter, r *http.Request) error {
	s, err := a.fetchable(r)
	if err != nil {
		return err
	}
	defer s.Close()
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return errProtocol
		}
		body = io.LimitReader(z, maxHaves)
	}
	streamed := isStream(r.Context())
	q, err := readWants(body, func() error {
		if streamed { // the client waits for the answer to each list of commits that it has
			_, err := w.Write(appendLine(nil, "NAK\n"))
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, want := range q.wants {
		if want != s.commit || s.partial {
			return fault.New(fault.NotFound, "The repository does not have the commit %s", want)
		}
	}
	w.Header().Set("Content-Type", "application/x-"+uploadPack+"-result")
	w.Header().Set("Cache-Control", "no-cache")
	if len(q.wants) == 0 || streamed && !q.done {
		return nil
	}
	_, _ = w.Write(appendLine(nil, "NAK\n")) // a client that is gone gets nothing more
	if !q.done {
		return nil
	}
	out := bands{w: w, off: !q.bands}
	if _, err := io.Copy(out, s.pack); err != nil {
		a.Log.InfoContext(r.Context(), "a git repository was not sent to its end", "error", err)
		return nil //nolint:nilerr // the client is gone
	}
	_ = out.end() // the client is gone
	return nil
}

// wants is a request to fetch.
type wants struct {
	wants       []gitpack.Hash
	bands, done bool
}

// readWants calls listed for each list of commits that the client has. A line may have 64 KiB, of which nothing but the
// id is kept: requests come compressed, and any number at the same time.
func readWants(r io.Reader, listed func() error) (q wants, err error) {
	lists := 0 // of wants, then of what the client has
	for {
		line, flush, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return q, nil
		}
		if err != nil {
			return q, err
		}
		if flush {
			if lists++; lists == 1 && len(q.wants) == 0 {
				return q, nil
			}
			if lists > 1 {
				if err := listed(); err != nil {
					return q, err
				}
			}
			continue
		}
		key, rest, _ := bytes.Cut(line, []byte(" "))
		switch string(key) {
		case "want":
			id := rest
			if len(q.wants) == 0 { // the first one also has the client's capabilities
				var capabilities []byte
				id, capabilities, _ = bytes.Cut(rest, []byte(" "))
				q.bands = slices.Contains(strings.Fields(string(capabilities)), "side-band-64k")
			}
			want, err := readID(id)
			if err != nil {
				return q, err
			}
			if q.wants = append(q.wants, want); len(q.wants) > maxWants {
				return q, errProtocol
			}
		case "have":
			if _, err := readID(rest); err != nil {
				return q, err
			}
		case "done":
			q.done = true
			return q, nil
		case "shallow", "deepen":
			return q, fault.New(fault.Unprocessable, "A part of the history cannot be fetched: use git clone without --depth")
		default:
			return q, errProtocol
		}
	}
}
