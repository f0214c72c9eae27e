package support

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"ingot/internal/base/background"
)

// Part is a file of a bundle.
type Part struct {
	// Name is its path in the bundle.
	Name string
	// Timeout limits the time that Collect takes; 0 means 10 s.
	Timeout time.Duration
	// Max is the size that is kept, in bytes; 0 means 1 MiB. Of a longer text the end is kept
	// if Tail is set, and the beginning otherwise.
	Max  int
	Tail bool
	// Binary means that it is no text and has no data of users: a profile.
	Binary bool
	// Collect returns the content. What it returns with an error is kept.
	Collect func(context.Context) ([]byte, error)
}

const (
	standardTimeout = 10 * time.Second
	standardMax     = 1 << 20
	// hangTime is how long a part may ignore the end of its time.
	hangTime = time.Second
)

// Outcome is what became of a part.
type Outcome struct {
	Name string
	Size int    // 0 if there is no file
	Note string // why it is missing or incomplete
}

// Write collects the parts and writes them below the folder root into a compressed archive, with
// an index of what could be collected and what could not.
func Write(ctx context.Context, w io.Writer, root, about string, parts []Part, s *Scrubber) ([]Outcome,
	error) {
	contents := make([][]byte, len(parts))
	outcomes := make([]Outcome, len(parts))
	var all background.WaitGroup
	for i, p := range parts {
		all.Go("support part", func() {
			var err error
			contents[i], err = p.collect(ctx)
			outcomes[i] = p.finish(&contents[i], err, s)
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	packed := gzip.NewWriter(w)
	archive := tar.NewWriter(packed)
	now := time.Now()
	add := func(name string, content []byte) error {
		err := archive.WriteHeader(&tar.Header{Name: root + "/" + name, Mode: 0o600, Size: int64(len(content)), ModTime: now})
		if err == nil {
			_, err = archive.Write(content)
		}
		return err
	}
	err := add("index.txt", index(string(s.Text([]byte(about))), outcomes))
	for i, o := range outcomes {
		if o.Size > 0 && err == nil {
			err = add(o.Name, contents[i])
		}
	}
	return outcomes, cmp.Or(err, errors.Join(archive.Close(), packed.Close()))
}

// collect calls Collect, for a limited time even if it hangs.
func (p Part) collect(ctx context.Context) ([]byte, error) {
	timeout := cmp.Or(p.Timeout, standardTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not finished after %v", timeout))
	defer cancel()
	content, err := background.Call(ctx, p.Name, hangTime, func() ([]byte, error) { return p.Collect(ctx) })
	if err != nil && ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	return content, err
}

// finish removes secrets, and what is too long.
func (p Part) finish(content *[]byte, err error, s *Scrubber) Outcome {
	o := Outcome{Name: p.Name}
	if err != nil {
		o.Note = strings.ReplaceAll(string(s.Text([]byte(err.Error()))), "\n", "; ")
	}
	limit, size := cmp.Or(p.Max, standardMax), len(*content)
	if size > limit {
		o.Note = strings.TrimPrefix(o.Note+"; "+fmt.Sprintf("cut: it has %d bytes", size), "; ")
		if p.Tail {
			*content = fromLine((*content)[size-limit:])
		} else {
			*content = (*content)[:limit]
		}
	}
	if !p.Binary {
		*content = s.Text(*content)
	}
	if o.Size = len(*content); o.Size == 0 && o.Note == "" {
		o.Note = "empty"
	}
	return o
}

// fromLine drops the first, incomplete line.
func fromLine(text []byte) []byte {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return text[i+1:]
	}
	return text
}

// index lists the parts.
func index(about string, outcomes []Outcome) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\nSecrets, mail addresses and what looks like them are replaced by %s and %s.\n\n", about,
		redacted, mailed)
	for _, o := range outcomes {
		state := fmt.Sprintf("%d bytes", o.Size)
		if o.Size == 0 {
			state = "MISSING"
		}
		fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%-26s %-14s %s", o.Name, state, o.Note)))
	}
	return b.Bytes()
}
