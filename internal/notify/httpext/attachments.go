package httpext

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/attach"
)

// uploadLimits are for a body that is a file.
var uploadLimits = web.Limits{Body: notify.MaxAttachmentBytes, Read: 5 * time.Minute}

// registerAttachments adds the routes of files that sends refer to.
func (f *handlers) registerAttachments(g *web.Group) {
	sender := web.Scope(scopeWrite)
	g.Within(uploadLimits).Storing().Handle("POST", "/attachments", sender, f.upload)
	g.Handle("GET", "/attachments/{attachment}", sender, f.showFile)
	g.Handle("DELETE", "/attachments/{attachment}", sender, f.deleteFile)
}

// attachmentBody is an attachment of a send, with its content or the id of a file.
type attachmentBody struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Content string `json:"content"`
	ID      string `json:"id"`
	Inline  string `json:"inline"`
}

// attachedBody is an attachment as it is shown.
type attachedBody struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Bytes  int64  `json:"bytes"`
	Inline string `json:"inline,omitempty"`
}

func presentAttachments(list []notify.Attachment) []attachedBody {
	var out []attachedBody
	for _, a := range list {
		out = append(out, attachedBody{a.ID, a.Name, a.Type, a.Size, a.Inline})
	}
	return out
}

// attachments checks the attachments of a send, and stores the contents among them.
func (f *handlers) attachments(r *http.Request, list []attachmentBody) ([]notify.Attachment, error) {
	given := make([]attach.Given, 0, len(list))
	for _, a := range list {
		given = append(given, attach.Given{Name: a.Name, Type: a.Type, Inline: a.Inline, Content: a.Content, ID: a.ID})
	}
	return attach.Prepare(r.Context(), f.Store, client(r), given)
}

type fileBody struct {
	ID    string `json:"id"`
	Type  string `json:"type"` // by its content
	Bytes int64  `json:"bytes"`
	// Kept is until when the file is kept if no send has it.
	Kept  time.Time       `json:"kept_until"`
	Links map[string]link `json:"_links"`
}

func presentFile(v notify.File) fileBody {
	return fileBody{v.ID, v.Kind, v.Size, v.Used.Add(notify.FilesKept).UTC(),
		map[string]link{"self": {"/attachments/" + v.ID}}}
}

// uploads counts the files that are being received, by client: each is in memory.
type uploads struct {
	mu sync.Mutex
	of map[string]int
}

// uploadsAtOnce limits the uploads of a client.
const uploadsAtOnce = 4

func (u *uploads) begin(client string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of[client] >= uploadsAtOnce {
		return false
	}
	if u.of == nil {
		u.of = map[string]int{}
	}
	u.of[client]++
	return true
}

func (u *uploads) end(client string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of[client]--; u.of[client] == 0 {
		delete(u.of, client)
	}
}

// upload stores a file, the body, once by its content.
func (f *handlers) upload(w http.ResponseWriter, r *http.Request) error {
	owner := client(r)
	if !f.uploads.begin(owner) {
		return fault.New(fault.RateLimited, "The client %q is uploading %d files already: try again when one is stored",
			owner, uploadsAtOnce).After(time.Second)
	}
	defer f.uploads.end(owner)
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	made, known, err := attach.Store(r.Context(), f.Store, owner, content)
	if err != nil {
		return err
	}
	stored, err := f.Store.File(r.Context(), owner, made.ID)
	if err != nil {
		return missing(err, "File", made.ID)
	}
	status := http.StatusCreated
	if known {
		status = http.StatusOK
	}
	w.Header().Set("Location", "/attachments/"+made.ID)
	return web.Answer(w, status, presentFile(stored), nil)
}

func (f *handlers) showFile(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "attachment")
	v, err := f.Store.File(r.Context(), client(r), id)
	if err != nil {
		return missing(err, "File", id)
	}
	return web.Answer(w, http.StatusOK, presentFile(v), nil)
}

func (f *handlers) deleteFile(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "attachment")
	err := f.Store.DeleteFile(r.Context(), client(r), id)
	if errors.Is(err, notify.ErrConflict) {
		return fault.Wrap(err, fault.Conflict, "A send has this file: it is deleted some time after the last of them")
	}
	return web.Answer(w, http.StatusNoContent, nil, missing(err, "File", id))
}
