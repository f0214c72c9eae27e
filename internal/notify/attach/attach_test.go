package attach

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// zipped returns an archive with entries.
func zipped(t *testing.T, entries ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range entries {
		method := zip.Deflate
		content := name
		if name == "mimetype" {
			method, content = zip.Store, "application/vnd.oasis.opendocument.text"
		}
		e, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// bomb returns a small archive of n bytes.
func bomb(t *testing.T, n int) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func inUTF16(s string) string {
	out := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(s)) {
		out = binary.LittleEndian.AppendUint16(out, u)
	}
	return string(out)
}

const (
	isPage   = "it is a page that a browser may run"
	isMacros = "it is a document that may contain macros"

	png  = "\x89PNG\r\n\x1a\n\x00\x00"
	jpeg = "\xff\xd8\xff\xe0\x00\x10JFIF"
	gif  = "GIF89a\x01\x00\x01\x00"
	webp = "RIFF\x10\x00\x00\x00WEBPVP8 "
	pdf  = "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
)

// TestHostile are attachments that must be refused, with the reason.
func TestHostile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ content, file, declared, inline, want string }{
		"nothing":                  {"", "a.txt", "", "", "it is empty"},
		"a Windows program":        {"MZ\x90\x00\x03", "report.pdf", "application/pdf", "", "it is a program"},
		"a Linux program":          {"\x7fELF\x02\x01", "report", "", "", "it is a program"},
		"a macOS program":          {"\xcf\xfa\xed\xfe\x07", "report", "", "", "it is a program"},
		"Java":                     {"\xca\xfe\xba\xbe\x00", "A.txt", "", "", "it is a program"},
		"WebAssembly":              {"\x00asm\x01", "a.dat", "", "", "it is a program"},
		"a shortcut":               {"L\x00\x00\x00\x01\x14\x02\x00", "a.dat", "", "", "it is a program"},
		"a program by its name":    {"just text", "run.exe", "", "", "its name says that it is a program"},
		"two extensions":           {"text", "invoice.pdf.EXE", "", "", "its name says that it is a program"},
		"spaces at the end":        {"text", "invoice.exe . .", "", "", "its name says that it is a program"},
		"a name that is turned":    {"text", "invoice\u202efdp.exe", "", "", "its name says that it is a program"},
		"a name with hidden parts": {"text", "invoice.e\u200bx\u2060e", "", "", "its name says that it is a program"},
		"a path":                   {"text", `..\..\Startup\run.bat`, "", "", "its name says that it is a script"},
		"a program by its type":    {"text", "a", "application/x-msdownload", "", "its type says that it is a program"},
		"a shell script":           {"#!/bin/sh\nrm -rf /\n", "notes.txt", "text/plain", "", "it is a script"},
		"a script in UTF-16":       {inUTF16("#!/bin/sh\n"), "notes.txt", "", "", "it is a script"},
		"a script by its name":     {"alert(1)", "a.js", "", "", "its name says that it is a script"},
		"a script by its type":     {"alert(1)", "a.txt", "text/javascript", "", "its type says that it is a script"},
		"a registry file":          {"Windows Registry Editor Version 5.00", "a.txt", "", "", "it is a script"},

		"a zip":                {zipped(t, "a.txt"), "a.zip", "application/zip", "", "it is an archive"},
		"a zip as a document":  {zipped(t, "a.exe"), "a.docx", wordDocument, "", "it is an archive"},
		"a zip bomb":           {zipped(t, strings.Repeat("x", 1000)), "a", "", "", "it is an archive"},
		"a gzip bomb":          {bomb(t, 20<<20), "a.txt", "", "", "it is an archive"},
		"an empty zip":         {"PK\x05\x06" + strings.Repeat("\x00", 18), "a.docx", "", "", "it is an archive"},
		"half a zip":           {"PK\x03\x04", "a.docx", "", "", "it is an archive"},
		"a zip with long name": {"PK\x03\x04" + strings.Repeat("\xff", 40), "a.docx", "", "", "it is an archive"},
		"a zip behind an image": {png + strings.Repeat("x", 100) + zipped(t, "a.exe"), "a.png", "image/png", "",
			"it is an archive"},
		"a zip behind a document": {pdf + zipped(t, "a.exe"), "a.pdf", "", "", "it is an archive"},
		"a tar":                   {strings.Repeat("\x00", 257) + "ustar", "a", "", "", "it is an archive"},
		"7z":                      {"7z\xbc\xaf\x27\x1c\x00", "a.dat", "", "", "it is an archive"},
		"rar":                     {"Rar!\x1a\x07\x01\x00", "a.dat", "", "", "it is an archive"},
		"a disk":                  {strings.Repeat("\x00", 0x8001) + "CD001\x01", "a.dat", "", "", "it is an archive"},
		"a disk of macOS": {strings.Repeat("\x00", 2000) + "koly" + strings.Repeat("\x00", 508), "a", "", "",
			"it is an archive"},
		"an archive by its name": {"text", "a.tar.gz", "", "", "its name says that it is an archive"},

		"macros": {zipped(t, "[Content_Types].xml", "word/document.xml", "word/vbaProject.bin"), "a.docx", wordDocument, "",
			isMacros},
		"macros in a sheet": {zipped(t, "mimetype", "Basic/Standard/Module1.xml"), "a.ods", "", "",
			isMacros},
		"an old document": {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00", "a.doc", "application/msword", "", isMacros},
		"macros by the name": {"text", "a.docm", "", "",
			"its name says that it is a document that may contain macros"},
		"HTML":                {"<!DOCTYPE html><script>alert(1)</script>", "a.txt", "text/plain", "", isPage},
		"HTML after spaces":   {"\xef\xbb\xbf \n\t<HtMl>", "a.txt", "", "", isPage},
		"HTML after comments": {"<!-- <p> --><body onload=x><html>", "a.txt", "", "", isPage},
		"HTML in UTF-16":      {inUTF16("<html><script>"), "a.txt", "", "", isPage},
		"SVG": {`<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><script/></svg>`, "a.png", "image/svg+xml", "logo",
			isPage},
		"XHTML": {`<?xml version="1.0"?><x:html xmlns:x="http://www.w3.org/1999/xhtml"/>`, "a.xml", "", "",
			isPage},
		"XML with a style": {`<?xml version="1.0"?><?xml-stylesheet href="x"?><a/>`, "a.xml", "", "", isPage},
		"an XML bomb": {`<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaa">]><l>&a;</l>`, "a.xml", "", "",
			isPage},
		"a page by its name": {"text", "a.html", "", "", "its name says that it is a page that a browser may run"},

		"another type": {png, "a.png", "application/pdf", "",
			"its type is application/pdf, but its content is image/png"},
		"an image that is text": {"just text", "", "image/png", "",
			"its type is image/png, but its content is text/plain"},
		"text that is not": {"\x00\x01\x02", "", "text/plain", "",
			"its type is text/plain, but its content is application/octet-stream"},
		"another name": {png, "a.pdf", "", "", "its name ends with .pdf, but its content is image/png"},
		"a name of text": {pdf, "a.txt", "", "",
			"its name ends with .txt, but its content is application/pdf"},
		"an image of another type": {"\x00\x01", "a.png", "", "",
			"its name ends with .png, but its content is application/octet-stream"},
		"an unknown type of known": {pdf, "a", "application/x-thing", "",
			"its type is application/x-thing, but its content is application/pdf"},
		"a message": {"Subject: x\n\ny", "a.eml", "message/rfc822", "",
			"messages and parts of them cannot be attached"},
		"a part": {"--x\n", "a", "multipart/mixed; boundary=x", "",
			"messages and parts of them cannot be attached"},
		"a type with a header": {png, "a.png", "image/png\r\nBcc: e@e.org", "",
			`"type" must be a media type such as image/png`},
		"no type": {png, "a.png", "png", "", `"type" must be a media type such as image/png`},
		"a long type": {"text", "a", "application/" + strings.Repeat("x", 200), "",
			`"type" must be a media type such as image/png`},
		"inline text": {"text", "a.txt", "", "a", "only PNG, JPEG, GIF and WebP images can be inline"},
		"inline with a header": {png, "a.png", "", "a>\r\nBcc: <e",
			`"inline" is the name after "cid:" in the HTML: at most 64 of a-z, A-Z, 0-9, ".", "-" and "_"`},
		"a long inline name": {png, "a.png", "", strings.Repeat("a", 65),
			`"inline" is the name after "cid:" in the HTML: at most 64 of a-z, A-Z, 0-9, ".", "-" and "_"`},
	} {
		kind, got := Sniff([]byte(c.content))
		if got == "" {
			_, got = Check(c.file, c.declared, c.inline, kind)
		}
		if got != c.want {
			t.Errorf("%s: %q (%s), want %q", name, got, kind, c.want)
		}
	}
}

// TestHarmless are attachments that must not be refused.
func TestHarmless(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ content, file, declared, inline, want string }{
		"png":             {png, "logo.png", "image/png", "logo", "logo.png image/png"},
		"jpeg":            {jpeg, "photo.JPG", "", "photo.1", "photo.JPG image/jpeg"},
		"gif":             {gif, "a.gif", "image/gif", "a", "a.gif image/gif"},
		"webp":            {webp, "a.webp", "", "a", "a.webp image/webp"},
		"pdf":             {pdf, "Rechnung März.pdf", "application/pdf", "", "Rechnung März.pdf application/pdf"},
		"without a name":  {pdf, "", "", "", "attachment.pdf application/pdf"},
		"csv":             {"a;b\nä;ö\n", "list.csv", "text/csv; charset=utf-8", "", "list.csv text/csv"},
		"csv by its name": {"a;b\n", "list.csv", "", "", "list.csv text/csv"},
		"json":            {`{"a":"<script>"}`, "data.json", "application/json", "", "data.json application/json"},
		"xml": {`<?xml version="1.0"?><order id="1"/>`, "order.xml", "application/xml", "",
			"order.xml application/xml"},
		"calendar": {"BEGIN:VCALENDAR\r\n", "invite.ics", "", "", "invite.ics text/calendar"},
		"text": {"MZ is no program, BM no image and\n#! no script\n", "notes.txt", "text/plain", "",
			"notes.txt text/plain"},
		"a word document": {zipped(t, "[Content_Types].xml", "word/document.xml"), "a.docx", wordDocument, "",
			"a.docx " + wordDocument},
		"a sheet": {zipped(t, "[Content_Types].xml", "xl/workbook.xml"), "a.xlsx", "", "",
			"a.xlsx " + spreadsheet},
		"an open document": {zipped(t, "mimetype", "content.xml"), "a.odt", "", "", "a.odt " + openDocument + "text"},
		"unknown": {"\x01\x02\x03", "a.parquet", "application/vnd.apache.parquet", "",
			"a.parquet application/vnd.apache.parquet"},
		"unknown, untyped": {"\x01\x02\x03", "data", "application/octet-stream", "", "data application/octet-stream"},
		"another name":     {jpeg, "a.jpeg", "image/jpg", "", "a.jpeg image/jpg"},
		"a movie":          {"\x00\x00\x00\x18ftypisom", "a.mp4", "video/mp4", "", "a.mp4 video/mp4"},
		"UTF-16":           {inUTF16("a;b\n"), "a.csv", "", "", "a.csv application/octet-stream"},
		"a signature": {"-----BEGIN PGP SIGNATURE-----\n", "a.asc", "application/pgp-signature", "",
			"a.asc application/pgp-signature"},
		"an image as bytes": {png, "a.png", "application/octet-stream", "", "a.png image/png"},
	} {
		kind, problem := Sniff([]byte(c.content))
		if problem != "" {
			t.Errorf("%s: %s", name, problem)
			continue
		}
		a, problem := Check(c.file, c.declared, c.inline, kind)
		if got := a.Name + " " + a.Type; got != c.want || problem != "" || a.Inline != c.inline {
			t.Errorf("%s: %q (%s), want %q", name, got, problem, c.want)
		}
	}
}

func TestCleanName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"report.pdf":                    "report.pdf",
		"/etc/passwd":                   "passwd",
		`C:\Users\ann\report.pdf`:       "report.pdf",
		"../../x.txt":                   "x.txt",
		"..":                            "",
		"":                              "",
		" . ":                           "",
		"a/":                            "",
		"a\r\nBcc: e@e.org.txt":         "a Bcc_ e@e.org.txt",
		"a\x00b\x1b[2J.txt":             "ab[2J.txt",
		"a\u202etxt.exe":                "atxt.exe",
		"\u2066a\u2069\u200f\ufeff.txt": "a.txt",
		"a\u2028b\u0085c.txt":           "a b c.txt",
		"a\u3164\u2800b":                "ab",
		`q"<>|:?*.txt`:                  "q_______.txt",
		"CON":                           "_CON",
		"nul.txt":                       "_nul.txt",
		"console.txt":                   "console.txt",
		"Bu\u0308ro.pdf":                "Büro.pdf",
		"\xff\xfea.txt":                 "a.txt",
		"  many   spaces .pdf":          "many spaces .pdf",
		"日本語.pdf":                       "日本語.pdf",
	} {
		if got := CleanName(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
	for _, long := range []string{strings.Repeat("ä", 200) + ".pdf", strings.Repeat("x", 149) + "ä",
		"a." + strings.Repeat("ö", 300)} {
		got := CleanName(long)
		if len(got) > maxName || !utf8.ValidString(got) ||
			strings.HasSuffix(long, ".pdf") && !strings.HasSuffix(got, ".pdf") {
			t.Errorf("%.20q… becomes %q of %d bytes", long, got, len(got))
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, content := range []string{png, pdf, "<svg>", "PK\x03\x04", "PK\x05\x06", "text", "\xff\xfe<\x00", ""} {
		f.Add([]byte(content), "a.txt", "text/plain", "logo")
	}
	f.Fuzz(func(t *testing.T, content []byte, name, declared, inline string) {
		kind, problem := Sniff(content)
		if (kind == "") == (problem == "") {
			t.Fatalf("%q, %q", kind, problem)
		}
		if problem != "" {
			return
		}
		a, problem := Check(name, declared, inline, kind)
		if problem != "" {
			return
		}
		if a.Name == "" || len(a.Name) > maxName+1 || !utf8.ValidString(a.Name) || CleanName(a.Name) != a.Name ||
			strings.ContainsAny(a.Name, "/\\\r\n\"\x00") {
			t.Errorf("the name is %q", a.Name)
		}
		if strings.ContainsAny(a.Type, " ;\r\n\"") || strings.Count(a.Type, "/") != 1 {
			t.Errorf("the type is %q", a.Type)
		}
		if a.Inline != "" && !plainID(a.Inline) {
			t.Errorf("inline is %q", a.Inline)
		}
	})
}
