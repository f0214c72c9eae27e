package drain

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/platform"
	"ingot/internal/platform/logs"
)

const (
	priorityOut = 14 // user-level, informational
	priorityErr = 11 // user-level, error
	// tagsID is the id of the structured data, with Cloud Foundry's enterprise number.
	tagsID      = "tags@47450"
	timeFormat  = "2006-01-02T15:04:05.000000-07:00"
	maxHostPart = 63
)

// Hostname returns the host name of an app's messages: org, space and app, in the
// characters of host names.
func Hostname(org, space, app string) string {
	var parts []string
	for _, part := range []string{org, space, app} {
		part = strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-':
				return r
			case r == ' ', r == '_', r == '.':
				return '-'
			}
			return -1
		}, part)
		part = strings.Trim(part[:min(len(part), maxHostPart)], "-")
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ".")
}

// appendMessage appends a line as a message of RFC 5424, ended by a line break as in Cloud
// Foundry.
func appendMessage(b []byte, e *platform.LogLine, d *Drain, metadata bool) []byte {
	priority := priorityOut
	if e.Stderr {
		priority = priorityErr
	}
	b = append(b, '<')
	b = strconv.AppendInt(b, int64(priority), 10)
	b = append(b, ">1 "...)
	b = e.Time.UTC().AppendFormat(b, timeFormat)
	b = appendField(b, d.Host, 255)
	b = appendField(b, e.App, 48)
	b = appendField(b, "["+strings.ToUpper(e.Source)+"/"+e.Instance+"]", 128)
	b = append(b, " - "...)
	if metadata {
		b = appendTags(b, e, d)
	} else {
		b = append(b, '-')
	}
	b = append(b, ' ')
	text := bytes.TrimRight(e.Text, "\r\n")
	if bytes.IndexByte(text, 0) >= 0 {
		text = bytes.ReplaceAll(text, []byte{0}, nil) // receivers take it for the end
	}
	b = append(b, text...)
	return append(b, '\n')
}

// appendField appends a header field: printable ASCII without spaces.
func appendField(b []byte, text string, most int) []byte {
	b = append(b, ' ')
	start := len(b)
	for _, c := range []byte(text) {
		if len(b)-start == most {
			break
		}
		if c <= ' ' || c > '~' {
			c = '-'
		}
		b = append(b, c)
	}
	if len(b) == start {
		b = append(b, '-')
	}
	return b
}

func appendTags(b []byte, e *platform.LogLine, d *Drain) []byte {
	tags := logs.Tags(e, &d.About)
	b = append(append(b, '['), tagsID...)
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		b = appendField(b, strings.NewReplacer("=", "-", "]", "-", `"`, "-").Replace(name), 32)
		b = append(b, `="`...)
		for _, c := range []byte(strings.ToValidUTF8(tags[name], "\uFFFD")) {
			if c == '"' || c == '\\' || c == ']' {
				b = append(b, '\\')
			}
			b = append(b, c)
		}
		b = append(b, '"')
	}
	return append(b, ']')
}

// appendCounted appends a message after its length, as in RFC 5425 and 6587.
func appendCounted(b, message []byte) []byte {
	b = strconv.AppendInt(b, int64(len(message)), 10)
	b = append(b, ' ')
	return append(b, message...)
}
