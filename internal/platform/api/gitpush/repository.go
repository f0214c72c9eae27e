package gitpush

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/gitpack"
)

// Repositories keeps one file per app.
type Repositories interface {
	// OpenRepository returns fault.NotFound if the app has none.
	OpenRepository(ctx context.Context, appGUID string) (io.ReadCloser, error)
	PutRepository(ctx context.Context, appGUID string, r io.Reader) error
}

// stored is what is kept of the last push: its first lines, and a pack of all objects of the
// commit.
type stored struct {
	ref     string // refs/heads/main
	commit  gitpack.Hash
	droplet string // that it was deployed as
	// partial: the pack was too large to be kept.
	partial bool
	pack    *bufio.Reader
	file    io.Closer
}

const (
	storedFormat = "ingot-git 1"
	maxHeader    = 4096
)

// Close closes the file, if there is one.
func (s *stored) Close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}

// repository returns what is kept of an app; an app without has an empty one.
func (a *API) repository(ctx context.Context, appGUID string) (*stored, error) {
	if appGUID == "" {
		return &stored{}, nil
	}
	file, err := a.Repositories.OpenRepository(ctx, appGUID)
	if fault.Is(err, fault.NotFound) {
		return &stored{}, nil
	}
	if err != nil {
		return nil, err
	}
	s := &stored{file: file, pack: bufio.NewReaderSize(file, 64<<10)}
	if err := s.readHeader(); err != nil {
		_ = file.Close()
		a.Log.WarnContext(ctx, "the git repository of an app is damaged; the next push replaces it", "app", appGUID,
			"error", err)
		return &stored{}, nil //nolint:nilerr // it is a cache
	}
	return s, nil
}

func (s *stored) readHeader() error {
	head := ""
	for {
		line, err := s.pack.ReadString('\n')
		if err != nil {
			return err
		}
		if line == "\n" {
			break
		}
		if head += line; len(head) > maxHeader {
			return errors.New("the header is too long")
		}
	}
	lines := strings.Split(strings.TrimSuffix(head, "\n"), "\n")
	if len(lines) != 5 || lines[0] != storedFormat {
		return errors.New("the header has an unknown format")
	}
	commit, ok := gitpack.ParseHash(lines[2])
	if !ok {
		return errors.New("the header has no commit")
	}
	s.ref, s.commit, s.droplet, s.partial = lines[1], commit, lines[3], lines[4] == "partial"
	return nil
}

// keep stores what was deployed. A pack that leaves no room for the next push is not kept.
func (a *API) keep(ctx context.Context, appGUID string, s *stored, objects *gitpack.Objects,
	all *gitpack.Closure) error {
	kept := "complete"
	if 2*all.Bytes > a.MaxUpload {
		kept = "partial"
	}
	pr, pw := io.Pipe()
	done := background.Feed("git repository", pw, func() error {
		if _, err := fmt.Fprintf(pw, "%s\n%s\n%s\n%s\n%s\n\n", storedFormat, s.ref, s.commit, s.droplet, kept); err != nil {
			return err
		}
		if kept == "partial" {
			return nil
		}
		return objects.WritePack(pw, all)
	})
	err := a.Repositories.PutRepository(ctx, appGUID, pr)
	_ = pr.CloseWithError(io.ErrClosedPipe) // never fails
	<-done
	return err
}
