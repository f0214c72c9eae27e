package attach

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// Given is an attachment as a sender gives it.
type Given struct {
	Name, Type string
	// Inline is the name of an image in the HTML; empty if it is not inline.
	Inline string
	// Content is base64, or ID that of a file which was stored before.
	Content, ID string
}

// ID returns the id of a file.
func ID(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Store checks a content and stores it for a client. known reports that it was stored already.
func Store(ctx context.Context, files notify.Files, client string, content []byte) (f notify.File, known bool,
	err error) {
	if len(content) > notify.MaxAttachmentBytes {
		return f, false, fault.New(fault.TooLarge, "The file has %d bytes or more, at most %d are allowed", len(content),
			notify.MaxAttachmentBytes)
	}
	kind, problem := Sniff(content)
	if problem != "" {
		return f, false, fault.Invalid("the file cannot be attached: " + problem)
	}
	f = notify.File{ClientID: client, ID: ID(content), Kind: kind, Size: int64(len(content))}
	known, err = files.PutFile(ctx, f, content)
	if err != nil {
		return f, false, fmt.Errorf("store a file: %w", err)
	}
	return f, known, nil
}

// Prepare checks the attachments of a send, and stores those that are given with their content. Nothing is stored
// unless all can be attached.
func Prepare(ctx context.Context, files notify.Files, client string, given []Given) ([]notify.Attachment, error) {
	if len(given) == 0 {
		return nil, nil
	}
	if len(given) > notify.MaxAttachments {
		return nil, fault.Invalid(fmt.Sprintf(`"attachments" has %d entries, at most %d are allowed`, len(given),
			notify.MaxAttachments))
	}
	out := make([]notify.Attachment, len(given))
	contents := make([][]byte, len(given))
	kinds := make([]string, len(given))
	var problems []string
	names := map[string]bool{}
	var total int64
	for i, g := range given {
		bad := func(problem string) { problems = append(problems, fmt.Sprintf("attachment %d: %s", i+1, problem)) }
		content, f, problem, err := find(ctx, files, client, g)
		if err != nil {
			return nil, err
		}
		if problem != "" {
			bad(problem)
			continue
		}
		a, problem := Check(g.Name, g.Type, g.Inline, f.Kind)
		if problem != "" {
			bad(problem)
			continue
		}
		if a.Inline != "" && names[a.Inline] {
			bad(fmt.Sprintf("another one is %q too", a.Inline))
		}
		names[a.Inline] = true
		a.ID, a.Size = f.ID, f.Size
		total += f.Size
		out[i], contents[i], kinds[i] = a, content, f.Kind
	}
	if total > notify.MaxAttachedBytes {
		problems = append(problems, fmt.Sprintf("the attachments have %d bytes together, at most %d are allowed", total,
			notify.MaxAttachedBytes))
	}
	if err := fault.Invalid(problems...); err != nil {
		return nil, err
	}
	for i, content := range contents {
		if content == nil {
			continue
		}
		f := notify.File{ClientID: client, ID: out[i].ID, Kind: kinds[i], Size: out[i].Size}
		if _, err := files.PutFile(ctx, f, content); err != nil {
			return nil, fmt.Errorf("store an attachment: %w", err)
		}
	}
	return out, nil
}

// find returns the file of an attachment: the content if it is given, or else what is stored.
func find(ctx context.Context, files notify.Files, client string, g Given) (content []byte, f notify.File,
	problem string, err error) {
	switch {
	case (g.ID == "") == (g.Content == ""):
		return nil, f, `give either "content" (base64) or "id"`, nil
	case g.ID != "":
		f, err = files.File(ctx, client, g.ID)
		if errors.Is(err, notify.ErrNotFound) {
			return nil, f, fmt.Sprintf("there is no file with the id %q: upload it with POST /attachments", g.ID), nil
		}
		return nil, f, "", err
	}
	content, ok := decode(g.Content)
	if !ok {
		return nil, f, `"content" is not base64`, nil
	}
	if len(content) > notify.MaxAttachmentBytes {
		return nil, f, fmt.Sprintf("it has %d bytes, at most %d are allowed", len(content), notify.MaxAttachmentBytes), nil
	}
	kind, problem := Sniff(content)
	return content, notify.File{ID: ID(content), Kind: kind, Size: int64(len(content))}, problem, nil
}

func decode(text string) (content []byte, ok bool) {
	content, err := base64.StdEncoding.DecodeString(text)
	return content, err == nil
}
