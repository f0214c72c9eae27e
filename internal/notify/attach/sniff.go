package attach

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Kinds of content that are not known by their first bytes.
const (
	plainText = "text/plain"
	unknown   = "application/octet-stream"
)

// Classes of content that is refused.
const (
	program = "a program"
	script  = "a script"
	archive = "an archive"
	page    = "a page that a browser may run"
	macros  = "a document that may contain macros"
)

// signature is how a kind of file begins.
type signature struct {
	at    int
	magic string
	// kind is a media type, or class why the content is refused.
	kind, class string
	// binary signatures are short words that a text may begin with.
	binary bool
}

// signatures of files; the first match counts.
var signatures = []signature{
	{magic: "\x89PNG\r\n\x1a\n", kind: "image/png"},
	{magic: "\xff\xd8\xff", kind: "image/jpeg"},
	{magic: "GIF87a", kind: "image/gif"},
	{magic: "GIF89a", kind: "image/gif"},
	{magic: "BM", kind: "image/bmp", binary: true},
	{magic: "II*\x00", kind: "image/tiff"},
	{magic: "MM\x00*", kind: "image/tiff"},
	{magic: "%PDF-", kind: "application/pdf"},
	{magic: "ID3", kind: "audio/mpeg", binary: true},
	{magic: "fLaC", kind: "audio/flac", binary: true},
	{magic: "OggS", kind: "application/ogg", binary: true},
	{magic: "\x1aE\xdf\xa3", kind: "video/webm"},

	{magic: "MZ", class: program, binary: true},
	{magic: "\x7fELF", class: program},
	{magic: "\xfe\xed\xfa\xce", class: program},
	{magic: "\xfe\xed\xfa\xcf", class: program},
	{magic: "\xce\xfa\xed\xfe", class: program},
	{magic: "\xcf\xfa\xed\xfe", class: program},
	{magic: "\xca\xfe\xba\xbe", class: program}, // of Java or macOS
	{magic: "\x00asm", class: program},
	{magic: "dex\n", class: program},
	{magic: "L\x00\x00\x00\x01\x14\x02\x00", class: program}, // a shortcut
	{magic: "ITSF", class: program, binary: true},            // compiled help
	{magic: "#!", class: script},
	{magic: "%!PS", class: script},
	{magic: "REGEDIT4", class: script},
	{magic: "Windows Registry Editor", class: script},
	{magic: "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", class: macros}, // documents of before 2007, and installers

	{magic: "PK\x05\x06", class: archive},
	{magic: "PK\x07\x08", class: archive},
	{magic: "\x1f\x8b", class: archive},
	{magic: "\x1f\x9d", class: archive},
	{magic: "\x1f\xa0", class: archive},
	{magic: "BZh", class: archive, binary: true},
	{magic: "\xfd7zXZ\x00", class: archive},
	{magic: "7z\xbc\xaf\x27\x1c", class: archive},
	{magic: "Rar!\x1a\x07", class: archive},
	{magic: "\x28\xb5\x2f\xfd", class: archive},
	{magic: "\x04\x22\x4d\x18", class: archive},
	{magic: "\x5d\x00\x00", class: archive},
	{magic: "MSCF", class: archive, binary: true},
	{magic: "!<arch>\n", class: archive},
	{magic: "\xed\xab\xee\xdb", class: archive},
	{magic: "LZIP", class: archive, binary: true},
	{magic: "hsqs", class: archive, binary: true},
	{magic: "xar!", class: archive, binary: true},
	{magic: "\x60\xea", class: archive},
	{at: 2, magic: "-lh", class: archive, binary: true},
	{at: 7, magic: "**ACE**", class: archive},
	{at: 257, magic: "ustar", class: archive},
	{at: 0x8001, magic: "CD001", class: archive},
	{at: 0x8801, magic: "CD001", class: archive},
	{at: 0x9001, magic: "CD001", class: archive},
}

// Sniff returns what a content is, as a media type, or why it cannot be attached: "it is an archive".
func Sniff(content []byte) (kind, problem string) {
	if len(content) == 0 {
		return "", "it is empty"
	}
	text := isText(content)
	class := ""
	switch {
	case bytes.HasPrefix(content, []byte("PK\x03\x04")):
		kind, class = packed(content)
	case len(content) >= 12 && string(content[4:8]) == "ftyp":
		kind = movie(string(content[8:12]))
	case len(content) >= 12 && string(content[:4]) == "RIFF":
		kind = riff(string(content[8:12]))
	default:
		kind, class = signed(content, text)
	}
	if class == "" && (kind == plainText || kind == unknown) {
		class = active(content)
	}
	if n := len(content) - 512; class == "" && kind != plainText && n > 0 &&
		bytes.HasPrefix(content[n:], []byte("koly")) {
		class = archive // a disk of macOS
	}
	if class == "" && !opensAsDocument(kind) && endsAsZip(content) {
		class = archive // behind something else
	}
	if class != "" {
		return "", "it is " + class
	}
	return kind, ""
}

// signed returns what the first bytes say.
func signed(content []byte, text bool) (kind, class string) {
	for _, s := range signatures {
		if s.binary && text || len(content) < s.at || !bytes.HasPrefix(content[s.at:], []byte(s.magic)) {
			continue
		}
		if s.class != "" {
			return "", s.class
		}
		return s.kind, ""
	}
	switch {
	case text:
		return plainText, ""
	case len(content) > 2 && content[0] == 0xff && content[1]&0xe6 == 0xe2: // a frame of layer III
		return "audio/mpeg", ""
	}
	return unknown, ""
}

// isText reports whether a content is UTF-8 without control characters.
func isText(content []byte) bool {
	for _, c := range content {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != 0x1b {
			return false
		}
	}
	return utf8.Valid(content)
}

func movie(brand string) string {
	switch brand {
	case "avif", "avis":
		return "image/avif"
	case "heic", "heix", "heim", "heis", "mif1", "msf1":
		return "image/heic"
	case "M4A ":
		return "audio/mp4"
	case "qt  ":
		return "video/quicktime"
	}
	return "video/mp4"
}

func riff(form string) string {
	switch form {
	case "WEBP":
		return "image/webp"
	case "WAVE":
		return "audio/wav"
	case "AVI ":
		return "video/x-msvideo"
	}
	return unknown
}

// Documents that are archives inside.
const (
	wordDocument = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	spreadsheet  = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
	presentation = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
	openDocument = "application/vnd.oasis.opendocument."
	epub         = "application/epub+zip"
)

func opensAsDocument(kind string) bool {
	return kind == wordDocument || kind == spreadsheet || kind == presentation || kind == epub ||
		strings.HasPrefix(kind, openDocument)
}

// packed returns which document an archive is, by its first entry and the names in it.
func packed(content []byte) (kind, class string) {
	const header = 30
	if len(content) < header {
		return "", archive
	}
	names := int(binary.LittleEndian.Uint16(content[26:]))
	extra := int(binary.LittleEndian.Uint16(content[28:]))
	if len(content) < header+names+extra {
		return "", archive
	}
	first, data := string(content[header:header+names]), content[header+names+extra:]
	for _, sign := range []string{"vbaProject", "Basic/", "Scripts/", "macrosheets/", "activeX/"} {
		if bytes.Contains(content, []byte(sign)) && first != "" {
			if isOffice(first) || first == "mimetype" {
				return "", macros
			}
		}
	}
	if first == "mimetype" {
		for _, of := range []string{epub, openDocument + "text", openDocument + "spreadsheet",
			openDocument + "presentation", openDocument + "graphics"} {
			if bytes.HasPrefix(data, []byte(of)) {
				return of, ""
			}
		}
		return "", archive
	}
	if !isOffice(first) {
		return "", archive
	}
	for _, of := range []struct{ name, kind string }{
		{"word/document", wordDocument}, {"xl/workbook", spreadsheet}, {"ppt/presentation", presentation},
	} {
		if bytes.Contains(content, []byte(of.name)) {
			return of.kind, ""
		}
	}
	return "", archive
}

// isOffice reports whether a file of an office program begins with an entry of this name.
func isOffice(first string) bool {
	if first == "[Content_Types].xml" {
		return true
	}
	for _, folder := range []string{"_rels/", "docProps/", "word/", "xl/", "ppt/"} {
		if strings.HasPrefix(first, folder) {
			return true
		}
	}
	return false
}

// endsAsZip reports whether programs that unpack would find an archive at the end.
func endsAsZip(content []byte) bool {
	const record, longest = 22, 1 << 16
	tail := content[max(0, len(content)-record-longest):]
	for {
		at := bytes.LastIndex(tail, []byte("PK\x05\x06"))
		if at < 0 {
			return false
		}
		if at+record <= len(tail) && at+record+int(binary.LittleEndian.Uint16(tail[at+record-2:])) <= len(tail) {
			return true
		}
		tail = tail[:at]
	}
}

// active returns why a text is refused that programs run: pages, drawings with scripts, and XML with a style sheet.
func active(content []byte) (class string) {
	// Text in UTF-16 is looked at as such.
	if len(content) > 1 && (content[0] == 0xff && content[1] == 0xfe || content[0] == 0xfe && content[1] == 0xff) {
		content = fromUTF16(content)
	}
	content = bytes.TrimLeft(bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")), " \t\r\n\f\x00")
	if bytes.HasPrefix(content, []byte("#!")) {
		return script
	}
	if !bytes.HasPrefix(content, []byte("<")) {
		return ""
	}
	lower := bytes.ToLower(content)
	for _, start := range []string{"<!doctype html", "<html", "<head", "<body", "<script", "<iframe", "<h1", "<div",
		"<font", "<table", "<a ", "<style", "<title", "<b>", "<br", "<p>", "<img", "<meta", "<form", "<svg", "<object",
		"<embed"} {
		if bytes.HasPrefix(lower, []byte(start)) {
			return page
		}
	}
	for _, sign := range []string{"<script", "<svg", "<html", "w3.org/1999/xhtml", "w3.org/2000/svg", "<?xml-stylesheet",
		"<hta:", "<xsl:", "<!entity"} {
		if bytes.Contains(lower, []byte(sign)) {
			return page
		}
	}
	return ""
}

func fromUTF16(content []byte) []byte {
	var order binary.ByteOrder = binary.LittleEndian
	if content[0] == 0xfe {
		order = binary.BigEndian
	}
	units := make([]uint16, 0, len(content)/2)
	for i := 2; i+1 < len(content); i += 2 {
		units = append(units, order.Uint16(content[i:]))
	}
	return []byte(string(utf16.Decode(units)))
}
