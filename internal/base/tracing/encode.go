package tracing

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of the messages of opentelemetry-proto: collector/trace/v1,
// trace/v1, resource/v1 and common/v1.
const (
	requestResourceSpans = 1

	resourceSpansResource = 1
	resourceSpansScopes   = 2
	resourceAttributes    = 1

	scopeSpansScope = 1
	scopeSpansSpans = 2
	scopeName       = 1

	spanTraceID    = 1
	spanSpanID     = 2
	spanParentID   = 4
	spanName       = 5
	spanKind       = 6
	spanStart      = 7
	spanEnd        = 8
	spanAttributes = 9
	spanStatus     = 15
	statusMessage  = 2
	statusCode     = 3
	statusError    = 2

	keyValueKey    = 1
	keyValueValue  = 2
	anyValueString = 1
	anyValueInt    = 3

	responsePartialSuccess = 1
	partialRejected        = 1
)

// maxText is the longest text of an attribute, a name or a reason, in bytes.
const maxText = 1024

// encode returns an ExportTraceServiceRequest.
func encode(resource []Attr, spans []Finished) []byte {
	var about []byte
	for _, a := range resource {
		about = appendAttr(about, resourceAttributes, a)
	}
	out := appendBytes(nil, resourceSpansResource, about)
	var parts []string
	scopes := map[string][]byte{}
	var one []byte
	for i := range spans {
		s := &spans[i]
		scope, known := scopes[s.Part]
		if !known {
			parts = append(parts, s.Part)
			scope = appendBytes(scope, scopeSpansScope, appendText(nil, scopeName, "ingot/"+s.Part))
		}
		one = appendSpan(one[:0], s)
		scopes[s.Part] = appendBytes(scope, scopeSpansSpans, one)
	}
	for _, part := range parts {
		out = appendBytes(out, resourceSpansScopes, scopes[part])
	}
	return appendBytes(nil, requestResourceSpans, out)
}

func appendSpan(b []byte, s *Finished) []byte {
	b = appendBytes(b, spanTraceID, s.Trace[:])
	b = appendBytes(b, spanSpanID, s.Span[:])
	if s.Parent != (SpanID{}) {
		b = appendBytes(b, spanParentID, s.Parent[:])
	}
	b = appendText(b, spanName, s.Name)
	b = appendVarint(b, spanKind, uint64(s.Kind)) //nolint:gosec // small
	b = appendTime(b, spanStart, s.Start.UnixNano())
	b = appendTime(b, spanEnd, s.Start.Add(s.Duration).UnixNano())
	for _, a := range s.Attrs {
		b = appendAttr(b, spanAttributes, a)
	}
	if s.Failed {
		b = appendBytes(b, spanStatus, appendVarint(appendText(nil, statusMessage, s.Failure), statusCode, statusError))
	}
	return b
}

// appendAttr appends a KeyValue, whose size is computed first, so that it needs no memory of
// its own: there are a dozen for every span.
func appendAttr(b []byte, field protowire.Number, a Attr) []byte {
	const tag = 1                                     // the size of a tag with a small number
	text, number := limited(a.text), uint64(a.number) //nolint:gosec // int64 as protobuf encodes it
	value := tag + protowire.SizeVarint(number)
	if a.isText {
		value = tag + protowire.SizeBytes(len(text))
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), //nolint:gosec // small
		uint64(tag+protowire.SizeBytes(len(a.key))+tag+protowire.SizeBytes(value)))
	b = protowire.AppendString(protowire.AppendTag(b, keyValueKey, protowire.BytesType), a.key)
	b = protowire.AppendVarint(protowire.AppendTag(b, keyValueValue, protowire.BytesType), //nolint:gosec // small
		uint64(value))
	if a.isText {
		return protowire.AppendString(protowire.AppendTag(b, anyValueString, protowire.BytesType), text)
	}
	return appendVarint(b, anyValueInt, number)
}

func appendBytes(b []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), value)
}

// appendText appends a text, which protobuf wants to be valid UTF-8; none if it is empty.
func appendText(b []byte, field protowire.Number, value string) []byte {
	if value == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), limited(value))
}

func appendVarint(b []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), value)
}

func appendTime(b []byte, field protowire.Number, nanos int64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), //nolint:gosec // not negative
		uint64(max(nanos, 0)))
}

func limited(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "�")
	}
	return s
}

// rejected returns how many spans of a request the collector did not accept, from its
// ExportTraceServiceResponse.
func rejected(body []byte) int {
	partial := field(body, responsePartialSuccess)
	for len(partial) > 0 {
		num, kind, n := protowire.ConsumeTag(partial)
		if n < 0 {
			return 0
		}
		partial = partial[n:]
		if num == partialRejected && kind == protowire.VarintType {
			count, n := protowire.ConsumeVarint(partial)
			if n < 0 || count > 1<<30 {
				return 0
			}
			return int(count) //nolint:gosec // checked
		}
		if n = protowire.ConsumeFieldValue(num, kind, partial); n < 0 {
			return 0
		}
		partial = partial[n:]
	}
	return 0
}

// field returns the last message in a field of another one.
func field(body []byte, wanted protowire.Number) (found []byte) {
	for len(body) > 0 {
		num, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return nil
		}
		body = body[n:]
		size := protowire.ConsumeFieldValue(num, kind, body)
		if size < 0 {
			return nil
		}
		if num == wanted && kind == protowire.BytesType {
			found, _ = protowire.ConsumeBytes(body)
		}
		body = body[size:]
	}
	return found
}
