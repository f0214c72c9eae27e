package gitpush

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/gitpack"
)

const (
	// maxLine is the largest line of the protocol, with its length.
	maxLine = 65520
	// maxID is the length of an object's id.
	maxID = 2 * len(gitpack.Hash{})
	// Bands of a response: data, and what is shown to the user.
	bandData     = 1
	bandProgress = 2
)

var errProtocol = fault.New(fault.BadRequest, "The request is not one of git's smart HTTP protocol")

// readLine reads a line without its line break; flush is true for the end of a list.
func readLine(r io.Reader) (line []byte, flush bool, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, false, err
	}
	n, err := strconv.ParseUint(string(head[:]), 16, 16)
	if err != nil || n > maxLine || n > 0 && n < 4 {
		return nil, false, errProtocol
	}
	if n == 0 {
		return nil, true, nil
	}
	line = make([]byte, n-4)
	if _, err := io.ReadFull(r, line); err != nil {
		return nil, false, errors.Join(errProtocol, err)
	}
	return bytes.TrimSuffix(line, []byte("\n")), false, nil
}

// readID returns the id of an object, which is all that a line has.
func readID(text []byte) (gitpack.Hash, error) {
	if len(text) <= maxID {
		if id, ok := gitpack.ParseHash(string(text)); ok {
			return id, nil
		}
	}
	shown, more := text[:min(len(text), maxID)], ""
	if len(shown) < len(text) {
		more = "…"
	}
	return gitpack.Hash{}, fault.New(fault.BadRequest,
		"The request names the object %q%s, but the id of an object has %d hexadecimal digits", shown, more, maxID)
}

// appendLine adds a line.
func appendLine(to []byte, text string) []byte {
	return append(to, fmt.Sprintf("%04x%s", len(text)+4, text)...)
}

const flushLine = "0000"

// bands writes the response to a request of which git reads data and progress.
type bands struct {
	w io.Writer
	// off: the client does not know bands, and gets the data only.
	off bool
}

// send writes to a band.
func (b bands) send(band byte, p []byte) error {
	if b.off {
		if band != bandData {
			return nil
		}
		_, err := b.w.Write(p)
		return err
	}
	for first := true; first || len(p) > 0; first = false {
		part := p[:min(len(p), maxLine-5)]
		p = p[len(part):]
		frame := append(fmt.Appendf(nil, "%04x", len(part)+5), band)
		if _, err := b.w.Write(append(frame, part...)); err != nil {
			return err
		}
	}
	return nil
}

// Write implements io.Writer for data.
func (b bands) Write(p []byte) (int, error) {
	if err := b.send(bandData, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (b bands) end() error {
	if b.off {
		return nil
	}
	_, err := io.WriteString(b.w, flushLine)
	return err
}

// oneLine makes a text fit for a line of a terminal.
func oneLine(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
	if text = strings.TrimSpace(text); len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
