package notify

import (
	"context"
	"sync"
	"time"
)

// Bounds of attachments.
const (
	// MaxAttachments limits the attachments of a send, MaxAttachmentBytes each of them, MaxAttachedBytes all of them. In
	// mail they take a third more; many mail servers accept 25 MB.
	MaxAttachments     = 20
	MaxAttachmentBytes = 10 << 20
	MaxAttachedBytes   = 15 << 20
)

// Attachment is a file that is sent with the mail of a send. Its content is a File.
type Attachment struct {
	// Name is a plain file name, without characters that mislead or that a system does not allow.
	Name string `json:"n"`
	Type string `json:"t"` // such as image/png
	// ID is the File's.
	ID   string `json:"i"`
	Size int64  `json:"s"`
	// Inline is the name under which the HTML shows an image: <img src="cid:logo">. Empty means that it is not inline.
	Inline string `json:"c,omitempty"`
}

// Attached are the attachments of a send with their contents. The messages of a send share them; they must not be
// changed.
type Attached struct {
	Files []AttachedFile
	Bytes int64

	mu    sync.Mutex
	forms map[any]any
}

// Form returns what a channel encodes the attachments to. It is made once for each key, and kept as long as they are.
func (a *Attached) Form(key any, encode func() any) any {
	a.mu.Lock()
	defer a.mu.Unlock()
	if have, ok := a.forms[key]; ok {
		return have
	}
	if a.forms == nil {
		a.forms = map[any]any{}
	}
	made := encode()
	a.forms[key] = made
	return made
}

// AttachedFile is an attachment with its content.
type AttachedFile struct {
	Attachment
	Content []byte
}

// File is a content that a client stores to attach it to sends.
type File struct {
	ClientID string
	// ID is the SHA-256 of the content in hexadecimal digits, so that the same content is stored once.
	ID string
	// Kind is what the content is, as package attach determines it.
	Kind string
	Size int64
	// Created is when it was stored first, and Used when it was stored or attached to a send last.
	Created, Used time.Time
}

// Files holds the contents of attachments. Purge deletes those that no send has and that were not used for FilesKept.
type Files interface {
	// PutFile stores a file, or renews Used if it is stored already, which known reports. It fails if the client has too
	// much stored: see Bounds.
	PutFile(ctx context.Context, f File, content []byte) (known bool, err error)
	File(ctx context.Context, clientID, id string) (File, error)
	FileContent(ctx context.Context, clientID, id string) ([]byte, error)
	// DeleteFile is ErrConflict if a send has the file.
	DeleteFile(ctx context.Context, clientID, id string) error
}

// FilesKept is how long a file is kept that no send has. It is longer than idempotency keys are.
const FilesKept = 48 * time.Hour
