package notifications

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"ingot/internal/cli/core"
)

// maxAttachment is how long a file may be that the server stores.
const maxAttachment = 10 << 20

// attach uploads the files of a send, and adds them to its body.
func (f *sendFlags) attach(ctx context.Context, s *core.Session, body map[string]any) error {
	var list []map[string]string
	add := func(path, inline string) error {
		id, err := f.upload(ctx, s, path)
		if err != nil {
			return err
		}
		one := map[string]string{"id": id, "name": filepath.Base(path)}
		if inline != "" {
			one["inline"] = inline
		}
		list = append(list, one)
		return nil
	}
	for _, path := range f.Attach {
		if err := add(path, ""); err != nil {
			return err
		}
	}
	for _, of := range f.Inline {
		name, path, ok := strings.Cut(of, "=")
		if !ok || name == "" || path == "" {
			return core.UsageError("--inline needs NAME=FILE, such as logo=logo.png")
		}
		if err := add(path, name); err != nil {
			return err
		}
	}
	if len(list) > 0 {
		body["attachments"] = list
	}
	return nil
}

// upload stores a file at the notification service and returns its id.
func (f *sendFlags) upload(ctx context.Context, s *core.Session, path string) (string, error) {
	info, err := os.Stat(s.Env.Path(path))
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return "", &core.Problem{What: path + " cannot be read.", Why: failed.Err.Error(), Err: err}
	}
	if err != nil {
		return "", err
	}
	if info.IsDir() || info.Size() > maxAttachment {
		return "", &core.Problem{What: path + " cannot be attached.", Why: "it is a folder, or longer than 10 MiB"}
	}
	content, err := os.ReadFile(s.Env.Path(path))
	if err != nil {
		return "", err
	}
	var out struct {
		ID string `json:"id"`
	}
	err = f.call(ctx, s, http.MethodPost, "/attachments", content, &out)
	return out.ID, err
}
