package frame

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"ingot/internal/platform"
)

// Encoder appends lines to a sequence of frames. It writes the origin of lines once. The
// zero value has to be reset before it is used.
type Encoder struct {
	origins map[originKey]int
	recent  *Origin // origin of the previous line, and its number
	number  int
	before  int64
}

type originKey struct{ stream, source, instance, tags string }

// Reset prepares the encoder for a new sequence.
func (e *Encoder) Reset() { e.origins, e.recent, e.before = map[originKey]int{}, nil, 0 }

// Drop frees the memory of the encoder.
func (e *Encoder) Drop() { e.origins, e.recent = nil, nil }

// AppendReset appends the frame after which a reader discards the state that Reset
// discards.
func AppendReset(b []byte) []byte { return AppendFrame(b, []byte{kindReset}) }

// Append appends a line with the given time. It returns the text as stored, truncated if it
// is too long, and the line's tags, which must not be changed. scratch is memory for a
// frame.
func (e *Encoder) Append(b []byte, l *platform.LogLine, at int64, scratch *[]byte) (out, text []byte,
	tags map[string]string) {
	if e.recent == nil || e.recent.Stream != l.Stream || e.recent.Source != l.Source ||
		e.recent.Instance != l.Instance || !maps.Equal(e.recent.Tags, l.Tags) {
		e.recent = &Origin{l.Stream, l.Source, l.Instance, maps.Clone(l.Tags)}
		key := originKey{l.Stream, l.Source, l.Instance, tagsKey(l.Tags)}
		number, known := e.origins[key]
		if !known {
			number = len(e.origins)
			e.origins[key] = number
			*scratch = appendOrigin((*scratch)[:0], e.recent)
			b = AppendFrame(b, *scratch)
		}
		e.number = number
	}
	text = l.Text
	if len(text) > MaxText {
		note := fmt.Sprintf(" … (%d bytes cut)", len(text)-MaxText)
		text = append(slices.Clone(text[:MaxText]), note...)
	}
	if l.Lost > 0 {
		*scratch = appendLoss((*scratch)[:0], l.Stream, l.Lost)
		b = AppendFrame(b, *scratch)
	}
	*scratch = appendLine((*scratch)[:0], l.Stderr, e.number, at-e.before, l.Seq, text)
	e.before = at
	return AppendFrame(b, *scratch), text, e.recent.Tags
}

func tagsKey(tags map[string]string) string {
	if len(tags) == 0 {
		return ""
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		b.WriteString(strconv.Quote(k))
		b.WriteString(strconv.Quote(tags[k]))
	}
	return b.String()
}

// Check returns why a line can never be stored.
func Check(l *platform.LogLine) error {
	tags := 0
	for k, v := range l.Tags {
		tags += len(k) + len(v)
	}
	if len(l.Stream) > 256 || len(l.Source) > 512 || len(l.Instance) > 64 || tags > 16<<10 {
		return fmt.Errorf("app %s: source, instance, stream or tags of a log line are too long", l.App)
	}
	return nil
}

// CheckStream returns an error for a name that cannot be that of a stream.
func CheckStream(name string) error {
	if !utf8.ValidString(name) || strings.Contains(name, "\x00") {
		return fmt.Errorf("%q cannot be the name of a log stream", name)
	}
	return nil
}

// CheckApp returns an error for a guid that cannot be the name of a folder.
func CheckApp(app string) error {
	valid := app != "" && len(app) <= 128 && app[0] != '.'
	for _, c := range []byte(app) {
		valid = valid && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' ||
			c == '_' || c == '.')
	}
	if !valid {
		return fmt.Errorf("%q cannot be the guid of an app", app)
	}
	return nil
}
