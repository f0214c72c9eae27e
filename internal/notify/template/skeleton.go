package template

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A slot is a placeholder for a value while the HTML around it is cleaned. It is
// an unguessable alphanumeric word, so that it passes every filter unchanged.
var slotMark = func() string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return "slot" + hex.EncodeToString(b[:])
}()

const (
	slotDigits = 5
	maxSlots   = 99_999
)

func slot(i int) string {
	s := strconv.Itoa(i)
	return slotMark + strings.Repeat("0", slotDigits-len(s)) + s
}

func hasSlot(s string) bool { return strings.Contains(s, slotMark) }

// cutSlot splits s at its first slot; n is -1 if there is none.
func cutSlot(s string) (before string, n int, after string) {
	before, rest, ok := strings.Cut(s, slotMark)
	if !ok || len(rest) < slotDigits {
		return s, -1, ""
	}
	n, err := strconv.Atoi(rest[:slotDigits])
	if err != nil {
		return s, -1, ""
	}
	return before, n, rest[slotDigits:]
}

// slotContext is the context of a slot, which decides how its value is escaped.
type slotContext uint8

const (
	inText        slotContext = iota // between tags
	inTitle                          // in an element that contains only text
	inAttr                           // the value of an attribute
	inName                           // instead of the name of an attribute
	inCSS                            // in a style element
	beforeHeadEnd                    // no slot: before the end of the head
)

// piece is literal HTML, followed by a part that depends on the values.
type piece struct {
	lit     string
	context slotContext
	slot    int       // for inText, inTitle, inName
	attr    attribute // for inAttr, with slots in its value; for inCSS only the value
	quiet   bool      // in a conditional comment, where markup could end it
}

// builder collects the output of the cleaner. With slots, it is split into pieces
// where values are inserted.
type builder struct {
	buf    strings.Builder
	slots  bool
	pieces []piece
	size   int // of all literals in pieces
}

func (b *builder) lit(s string) { b.buf.WriteString(s) }

// String returns the output if there are no slots.
func (b *builder) String() string { return b.buf.String() }

func (b *builder) add(p piece) {
	p.lit = b.buf.String()
	b.size += len(p.lit)
	b.buf.Reset()
	b.pieces = append(b.pieces, p)
}

func (b *builder) mark(w slotContext) {
	if b.slots {
		b.add(piece{context: w})
	}
}

// text writes text that may contain slots.
func (b *builder) text(s string, w slotContext) {
	for b.slots {
		before, n, after := cutSlot(s)
		if n < 0 {
			break
		}
		b.lit(before)
		b.add(piece{context: w, slot: n})
		s = after
	}
	b.lit(s)
}

func (b *builder) css(s string) {
	s = cleanCSS(s)
	if b.slots && hasSlot(s) {
		b.add(piece{context: inCSS, attr: attribute{value: s, kind: attrStyle}})
		return
	}
	b.lit(s)
}

// tag writes a start tag.
func (b *builder) tag(name string, attrs []attribute, selfClosing bool) {
	b.lit("<" + name)
	for _, a := range attrs {
		switch {
		case b.slots && hasSlot(a.name):
			if before, n, after := cutSlot(a.name); n >= 0 && before == "" && after == "" && a.value == "" {
				b.add(piece{context: inName, slot: n})
			}
		case b.slots && hasSlot(a.value):
			b.add(piece{context: inAttr, attr: a})
		default:
			b.attribute(a)
		}
	}
	if selfClosing {
		b.lit(" /")
	}
	b.lit(">")
}

func (b *builder) attribute(a attribute) {
	b.lit(" " + a.name + `="` + string(appendEscaped(nil, a.value)) + `"`)
}

// position, since and truncate are for output that may be discarded.
type position struct{ pieces, size, buf int }

func (b *builder) position() position { return position{len(b.pieces), b.size, b.buf.Len()} }

// since returns the literals written after p and marks the slots among them.
func (b *builder) since(p position) string {
	if len(b.pieces) == p.pieces {
		return b.buf.String()[p.buf:]
	}
	var out strings.Builder
	for i := p.pieces; i < len(b.pieces); i++ {
		b.pieces[i].quiet = true
		out.WriteString(b.pieces[i].lit)
		out.WriteByte(' ')
	}
	out.WriteString(b.buf.String())
	return out.String()[p.buf:]
}

func (b *builder) truncate(p position) {
	kept := b.buf.String()
	if len(b.pieces) > p.pieces {
		kept = b.pieces[p.pieces].lit
		b.pieces = b.pieces[:p.pieces]
	}
	b.size = p.size
	b.buf.Reset()
	b.buf.WriteString(kept[:p.buf])
}

// skeleton is the cleaned HTML of one path through a template.
type skeleton struct {
	pieces []piece
	end    string
	full   bool // a complete document, not to be wrapped
	size   int
}

func newSkeleton(source string) *skeleton {
	b := &builder{slots: true}
	c := cleaner{out: b}
	c.run(source)
	s := &skeleton{pieces: b.pieces, end: b.buf.String(), full: c.full}
	s.size = b.size + len(s.end)
	return s
}

// maxPart limits each part of a message.
const maxPart = 1 << 20

var errTooLarge = errors.New("the rendered part is larger than 1 MiB")

// fill writes the skeleton with values. It writes head before the end of the
// template's own head.
func (s *skeleton) fill(dst []byte, values []value, head string) ([]byte, error) {
	var scratch []byte
	for i := range s.pieces {
		p := &s.pieces[i]
		dst = append(dst, p.lit...)
		switch p.context {
		case beforeHeadEnd:
			dst = append(dst, head...)
		case inText:
			dst = appendText(dst, values[p.slot], p.quiet)
		case inTitle:
			dst = appendEscaped(dst, values[p.slot].String())
		case inName:
			if v := values[p.slot]; v.kind == kindAttrs {
				dst = append(dst, v.s...)
			}
		case inCSS:
			scratch = p.attr.assemble(scratch[:0], values)
			if v, ok := allowedValue(attrStyle, string(scratch)); ok {
				dst = append(dst, v...)
			}
		case inAttr:
			scratch = p.attr.assemble(scratch[:0], values)
			if v, ok := allowedValue(p.attr.kind, string(scratch)); ok {
				dst = append(dst, ' ')
				dst = append(dst, p.attr.name...)
				dst = append(dst, `="`...)
				dst = appendEscaped(dst, v)
				dst = append(dst, '"')
			}
		}
		if len(dst) > maxPart {
			return nil, errTooLarge
		}
	}
	if dst = append(dst, s.end...); len(dst) > maxPart {
		return nil, errTooLarge
	}
	return dst, nil
}

func appendText(dst []byte, v value, quiet bool) []byte {
	if v.kind == kindMarkup && (!quiet || !strings.Contains(v.s, "--")) {
		return append(dst, v.s...)
	}
	return appendEscaped(dst, v.String())
}

// assemble writes the value of an attribute, with each slot escaped by its kind.
func (a attribute) assemble(dst []byte, values []value) []byte {
	s, data := a.value, false
	for {
		before, n, after := cutSlot(s)
		dst = append(dst, before...)
		if n < 0 {
			return dst
		}
		data = data || strings.ContainsAny(before, "?#")
		v := values[n].String()
		switch a.kind {
		case attrLink, attrImage, attrAction:
			if data || len(dst) > 0 || !strings.HasPrefix(stripIgnored(v), "data:") {
				dst = appendAddressPart(dst, v, data)
			} else {
				dst = append(dst, v...)
			}
			data = data || strings.ContainsAny(v, "?#")
		case attrSet:
			dst = appendAddressPart(dst, v, true)
		case attrStyle:
			dst = append(dst, cssValue(v)...)
		default:
			dst = append(dst, v...)
		}
		s = after
	}
}

// appendEscaped escapes text for use between tags and in quotes.
func appendEscaped(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "�")
	}
	last := 0
	for i := range len(s) {
		var e string
		switch c := s[i]; c {
		case '&':
			e = "&amp;"
		case '<':
			e = "&lt;"
		case '>':
			e = "&gt;"
		case '"':
			e = "&#34;"
		case '\'':
			e = "&#39;"
		case '`':
			e = "&#96;"
		case '\n', '\t', '\r':
			continue
		default:
			if c >= ' ' && c != 0x7f {
				continue
			}
		}
		dst = append(dst, s[last:i]...)
		dst = append(dst, e...)
		last = i + 1
	}
	return append(dst, s[last:]...)
}
