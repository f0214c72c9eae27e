package template

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// active returns the active content of a document as a browser's parser sees it.
// It shares no code with the sanitizer: it reads the tree and not the tokens, and
// has a list of what is forbidden and not of what is allowed.
func active(t testing.TB, source string) []string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(source))
	if err != nil {
		// The parser rejects nesting that is too deep.
		return nil
	}
	var found []string
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			found = append(found, activeElement(n)...)
		}
	}
	// Outlook parses the content of these comments as HTML.
	for _, m := range outlookOnly.FindAllStringSubmatch(source, -1) {
		found = append(found, active(t, m[1])...)
	}
	return found
}

var (
	badElement = regexp.MustCompile(
		`^(script|iframe|frame|frameset|object|embed|applet|base|svg|math|template|noscript|portal|isindex|select|image|bgsound|layer|vmlframe|v:vmlframe|param|foreignobject|animate|set|xml)$`)
	badScheme = regexp.MustCompile(
		`^((javascript|vbscript|livescript|mocha|ecmascript|jscript|file|about|blob|filesystem|view-source):|data:(text|application|image/svg))`)
	badStyle       = regexp.MustCompile(`expression\(|-moz-binding|[^a-z-]behavior:|javascript:|vbscript:|data:text`)
	outlookOnly    = regexp.MustCompile(`(?is)<!--\[if[^\]]*\]>(.+?)-->`)
	outlookDrawing = regexp.MustCompile(`behavior:url\(["']?#default#vml["']?\)(!important)?(;|\}|$)`)
	cssHex         = regexp.MustCompile(`\\0*([0-9a-f]{1,6})\s?`)
	cssRemark      = regexp.MustCompile(`(?s)/\*.*?\*/`)
)

func activeElement(n *html.Node) []string {
	var found []string
	if badElement.MatchString(n.Data) && (n.Data != "xml") {
		found = append(found, "<"+n.Data+">")
	}
	if n.Namespace != "" {
		found = append(found, "namespace "+n.Namespace)
	}
	for _, a := range n.Attr {
		v := strings.Map(func(r rune) rune {
			if r <= ' ' || r == '\u00a0' || r >= '\u2000' && r <= '\u200f' || r == 0xfeff || r == 0xad || r == 0x85 {
				return -1
			}
			return r
		}, strings.ToLower(a.Val))
		switch {
		case strings.HasPrefix(a.Key, "on"), a.Key == "srcdoc", a.Key == "formaction", a.Key == "ping", a.Key == "autofocus":
			found = append(found, a.Key)
		case a.Key == "http-equiv" && (v == "refresh" || v == "set-cookie" || strings.HasPrefix(v, "content-security")):
			found = append(found, "meta "+v)
		case a.Key == "style":
			found = append(found, activeStyle(a.Val)...)
		case a.Key != "alt" && a.Key != "title" && a.Key != "value" && a.Key != "content" && a.Key != "placeholder" &&
			!strings.HasPrefix(a.Key, "data-") && !strings.HasPrefix(a.Key, "aria-") && addressAttribute[a.Key] &&
			badScheme.MatchString(v):
			found = append(found, a.Key+"="+v)
		}
	}
	if n.Data == "style" && n.FirstChild != nil {
		found = append(found, activeStyle(n.FirstChild.Data)...)
	}
	if n.Data == "link" {
		for _, a := range n.Attr {
			if a.Key == "rel" && strings.Contains(strings.ToLower(a.Val), "import") {
				found = append(found, "link import")
			}
		}
	}
	return found
}

var addressAttribute = map[string]bool{
	"href": true, "src": true, "background": true, "action": true, "poster": true, "cite": true, "data": true,
	"xlink:href": true,
	"dynsrc":     true, "lowsrc": true, "longdesc": true, "codebase": true, "classid": true, "usemap": true,
	"profile": true,
	"o:href":  true,
}

func activeStyle(s string) []string {
	s = strings.ToLower(s)
	plain := cssHex.ReplaceAllStringFunc(s, func(m string) string {
		var r rune
		_, _ = fmt.Sscanf(strings.TrimSpace(m[1:]), "%x", &r)
		return string(r)
	})
	plain = strings.ReplaceAll(plain, `\`, "")
	var found []string
	for _, s := range []string{s, plain, cssRemark.ReplaceAllString(plain, "")} {
		s = outlookDrawing.ReplaceAllString(strings.Join(strings.Fields(s), ""), "")
		if m := badStyle.FindString(" " + s); m != "" {
			found = append(found, "style "+m)
		}
	}
	return found
}

// The vectors are of the well-known kinds. Each is also checked with the parser,
// except those that only affect old mail readers.
var vectors = []string{
	// Scripts.
	`<script>alert(1)</script>`,
	`<SCRIPT SRC=//evil.example/x.js></SCRIPT>`,
	`<script/x>alert(1)</script>`,
	"<script\n>alert(1)</script\n>",
	`<scr<script>ipt>alert(1)</scr</script>ipt>`,
	`<<script>alert(1)//<</script>`,
	`<<script></script>img src=x onerror=alert(1)>`,
	`<script>alert(1)`,
	`</title><script>alert(1)</script>`,
	`<script src="data:text/javascript,alert(1)"></script>`,
	"<scr\x00ipt>alert(1)</scr\x00ipt>",
	// Event handlers.
	`<img src=x onerror=alert(1)>`,
	`<IMG SRC=x OnErRoR="alert(1)">`,
	`<img/src=x/onerror=alert(1)>`,
	`<img src="x"onerror="alert(1)">`,
	"<img src=x\x0conerror=alert(1)>",
	`<body onload=alert(1)>`,
	`<div onmouseover='alert(1)'>x</div>`,
	`<input autofocus onfocus=alert(1)>`,
	`<details open ontoggle=alert(1)>`,
	`<marquee onstart=alert(1)>`,
	`<video><source onerror=alert(1)>`,
	`<audio src=x onerror=alert(1)>`,
	`<a href="#" onclick="alert(1)" ONCLICK="alert(2)">x</a>`,
	`<table background="x" onpointerenter=alert(1)>`,
	`<p style="animation-name:x" onanimationstart=alert(1)>`,
	`<img src='x' alt='"' onerror='alert(1)'>`,
	`<img src="x` + "`" + `<script>alert(1)</script>" ` + "`" + `onerror=alert(1)>`,
	`<img """><script>alert(1)</script>">`,
	// Addresses.
	`<a href="javascript:alert(1)">x</a>`,
	`<a href="JaVaScRiPt:alert(1)">x</a>`,
	`<a href=" javascript:alert(1)">x</a>`,
	`<a href="&#1;javascript:alert(1)">x</a>`,
	`<a href="java&#x09;script:alert(1)">x</a>`,
	"<a href=\"java\nscript:alert(1)\">x</a>",
	`<a href="&#106;&#97;&#118;&#97;script&colon;alert(1)">x</a>`,
	`<a href="&#0000106avascript:alert(1)">x</a>`,
	`<a href="javascript&NewLine;:alert(1)">x</a>`,
	`<a href="vbscript:msgbox(1)">x</a>`,
	`<a href="data:text/html,<script>alert(1)</script>">x</a>`,
	`<a href="data:text/html;base64,PHNjcmlwdD4=">x</a>`,
	`<a href="DATA:image/svg+xml,<svg onload=alert(1)>">x</a>`,
	`<img src="javascript:alert(1)">`,
	`<img src="data:image/svg+xml;base64,PHN2Zz4=">`,
	`<img dynsrc="javascript:alert(1)">`,
	`<img lowsrc="javascript:alert(1)">`,
	`<input type=image src="javascript:alert(1)">`,
	`<table background="javascript:alert(1)"><tr><td>x</td></tr></table>`,
	`<form action="javascript:alert(1)"><input type=submit></form>`,
	`<form><button formaction="javascript:alert(1)">x</button></form>`,
	`<a href="https://x.example" ping="https://evil.example">x</a>`,
	`<map name=m><area href="javascript:alert(1)"></map>`,
	`<blockquote cite="javascript:alert(1)">x</blockquote>`,
	`<video poster="javascript:alert(1)"></video>`,
	`<a href="file:///etc/passwd">x</a>`,
	"<a href=\"\u00a0javascript:alert(1)\">x</a>",
	"<a href=\"java\u200bscript:alert(1)\">x</a>",
	// Frames, objects, documents in documents.
	`<iframe src="https://evil.example"></iframe>`,
	`<iframe srcdoc="<script>alert(1)</script>"></iframe>`,
	`<iframe><img src=x onerror=alert(1)></iframe>`,
	`<frameset onload=alert(1)><frame src="javascript:alert(1)"></frameset>`,
	`<object data="javascript:alert(1)"></object>`,
	`<object type="text/x-scriptlet" data="https://evil.example"></object>`,
	`<embed src="data:text/html,x">`,
	`<applet code="x.class"></applet>`,
	`<base href="javascript:alert(1)//">`,
	`<link rel=import href="https://evil.example">`,
	`<link rel=stylesheet href="javascript:alert(1)">`,
	`<meta http-equiv="refresh" content="0;url=javascript:alert(1)">`,
	`<META HTTP-EQUIV=" refresh " CONTENT="0;url=https://evil.example">`,
	`<meta http-equiv="Set-Cookie" content="a=b">`,
	`<noscript><p title="</noscript><img src=x onerror=alert(1)>"></noscript>`,
	`<noembed><img title="</noembed><img src=x onerror=alert(1)>"></noembed>`,
	`<template><img src=x onerror=alert(1)></template>`,
	`<xmp><img title="</xmp><img src=x onerror=alert(1)>"></xmp>`,
	`<plaintext><img src=x onerror=alert(1)>`,
	`<textarea></textarea><img src=x onerror=alert(1)>`,
	`<title><img title="</title><img src=x onerror=alert(1)>"></title>`,
	`<select><style></select><img src=x onerror=alert(1)></style></select>`,
	`<isindex action="javascript:alert(1)" type=submit>`,
	// SVG and MathML.
	`<svg onload=alert(1)>`,
	`<svg><script>alert(1)</script></svg>`,
	`<svg><a xlink:href="javascript:alert(1)"><text y=20>x</text></a></svg>`,
	`<svg><animate attributeName=href values=javascript:alert(1)></svg>`,
	`<svg><foreignObject><iframe src=x></iframe></foreignObject></svg>`,
	`<svg><style><img src=x onerror=alert(1)></style></svg>`,
	`<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">`,
	`<math href="javascript:alert(1)">x</math>`,
	`<form><math><mtext></form><form><mglyph><svg><mtext><textarea><path id="</textarea><img onerror=alert(1) src=1>"></form>`,
	`<svg></p><style><g title="</style><img src=x onerror=alert(1)>">`,
	`<math><annotation-xml encoding="text/html"><img src=x onerror=alert(1)></annotation-xml></math>`,
	// Style sheets.
	`<div style="width:expression(alert(1))">x</div>`,
	`<div style="width:exp/**/ression(alert(1))">x</div>`,
	`<div style="width:exp\72 ession(alert(1))">x</div>`,
	"<div style=\"width:ｅｘｐｒｅｓｓｉｏｎ(alert(1))\">x</div>",
	`<div style="background:url(javascript:alert(1))">x</div>`,
	`<div style="background:url('java\73 cript:alert(1)')">x</div>`,
	`<div style="background:\75 rl(data:text/html,x)">x</div>`,
	`<div style="behavior:url(x.htc)">x</div>`,
	`<div style="behavior:url(#default#VML) url(x.htc)">x</div>`,
	`<style>v\:* {behavior:url(#default#VML),url(x.htc)}</style>`,
	`<div style="-moz-binding:url(x.xml#a)">x</div>`,
	`<div style="color:red;content:'/*';width:expression(1);content:'*/'">x</div>`,
	`<style>@import 'javascript:alert(1)';</style>`,
	`<style>body{background:url("javascript:alert(1)")}</style>`,
	`<style>li{list-style-image:url(vbscript:x)}</style>`,
	`<style></style><img src=x onerror=alert(1)></style>`,
	`<style><!--</style><script>alert(1)</script>--></style>`,
	// Comments and other markup.
	`<!--><img src=x onerror=alert(1)>-->`,
	`<!---><img src=x onerror=alert(1)>-->`,
	`<!-- --!><img src=x onerror=alert(1)>-->`,
	`<!--[if mso]><script>alert(1)</script><![endif]-->`,
	`<!--[if mso]><img src=x onerror=alert(1)><![endif]-->`,
	`<!--[if mso]><v:vmlframe src="https://evil.example/x.xml#a"></v:vmlframe><![endif]-->`,
	`<!--[if mso]>--<script></script>><img src=x onerror=alert(1)><![endif]-->`,
	`<![CDATA[<img src=x onerror=alert(1)>]]>`,
	`<?xml version="1.0"?><script>alert(1)</script>`,
	`<?import namespace="t" implementation="#default#time2">`,
	`<xml id=x><a><b>&lt;img src=x onerror=alert(1)&gt;</b></a></xml>`,
	`<!DOCTYPE html [<!ENTITY x "<script>alert(1)</script>">]>`,
	`<t:set attributename="innerHTML" to="&lt;img src=x onerror=alert(1)&gt;">`,
	`<image src=x onerror=alert(1)>`,
	`<bgsound src="javascript:alert(1)">`,
	`<layer src="https://evil.example/x.js"></layer>`,
	`<v:roundrect href="javascript:alert(1)">x</v:roundrect>`,
	`<o:p onclick=alert(1)>x</o:p>`,
	`<x onclick=alert(1)>x</x>`,
	`<a/href="javascript:alert(1)">x`,
	`<a href=javascript:alert(1)//`,
	`<img srcset="x 1x, javascript:alert(1) 2x">`,
	`<div style="xss:expr` + "\x00" + `ession(alert(1))">x</div>`,
}

func TestVectors(t *testing.T) {
	t.Parallel()
	if len(vectors) < 60 {
		t.Fatalf("%d vectors", len(vectors))
	}
	for _, v := range vectors {
		for _, around := range []string{"%s", "<p>before</p>%s<p>after</p>", "<table><tr><td>%s</td></tr></table>",
			"<html><head>%s</head><body>x</body></html>"} {
			source := fmt.Sprintf(around, v)
			got := Clean(source)
			if found := active(t, got); len(found) > 0 {
				t.Errorf("%q\nbecame %q\nwith %q", source, got, found)
			}
			if again := Clean(got); again != got {
				t.Errorf("%q\nbecame %q\nand then %q", source, got, again)
			}
			d := split(source)
			for _, part := range []string{d.head, d.body, "<body" + d.bodyAttrs + ">", "<html" + d.htmlAttrs + ">"} {
				if found := active(t, part); len(found) > 0 {
					t.Errorf("%q has the part %q with %q", source, part, found)
				}
			}
		}
	}
}

// What active does not find would be a gap in the test.
func TestJudgeSeesActiveContent(t *testing.T) {
	t.Parallel()
	blind := 0
	for _, v := range vectors {
		if len(active(t, v)) == 0 {
			blind++
			t.Logf("not seen as active: %q", v)
		}
	}
	if blind > len(vectors)/4 {
		t.Errorf("active finds nothing in %d of %d vectors", blind, len(vectors))
	}
}

func FuzzClean(f *testing.F) {
	for _, v := range vectors {
		f.Add(v)
	}
	for _, l := range layouts {
		f.Add(l)
	}
	f.Fuzz(func(t *testing.T, source string) {
		got := Clean(source)
		if found := active(t, got); len(found) > 0 {
			t.Fatalf("%q\nbecame %q\nwith %q", source, got, found)
		}
		if again := Clean(got); again != got {
			t.Fatalf("%q\nbecame %q\nand then %q", source, got, again)
		}
		d := split(source)
		if found := active(t, d.body); len(found) > 0 {
			t.Fatalf("%q\nhas the body %q\nwith %q", source, d.body, found)
		}
		ToText(source)
	})
}
