package template

import (
	"strings"
	"testing"
)

// layouts must be preserved byte for byte.
var layouts = map[string]string{
	"fragment": `<p class="lead" id=x>Hello &amp; welcome &mdash; <b>you</b><br/>5 > 3</p>`,
	"table": `<table width="600" bgcolor='#ffffff' cellpadding="0" cellspacing="0" border=0 align="center" role="presentation" background="https://x.example/bg.png">
<tr><td valign="top" colspan="2" nowrap style="padding:10px 20px; font-family:'Helvetica Neue',Arial,sans-serif">cell</td></tr></table>`,
	"images": `<img src="https://x.example/a.png" width=1 alt="it's"><img src="cid:logo@x" /><img src="data:image/png;base64,iVBORw0KGgo=" border="0">`,
	"links":  `<a href="https://x.example/?a=1&amp;b=2#c" target="_blank" rel="noopener" style="color:#00f">x</a><a href="mailto:a@b.c?subject=x">m</a><a href='tel:+1'>t</a><a href="/r">r</a><a href="#top">u</a>`,
	"style": `<style type="text/css">
  @import url("https://fonts.example/css?family=Open+Sans");
  @media only screen and (max-width: 600px) { .c { width: 100% !important; background: url('https://x.example/b.png') } }
  a > b { scroll-behavior: smooth; content: "\201C"; } /* note */
  @font-face { font-family: X; src: url(data:font/woff2;base64,d09GMg==) format("woff2"); }
  v\:* { behavior: url(#default#VML); display:inline-block }
</style>`,
	"document": `<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:v="urn:schemas-microsoft-com:vml" xmlns:o="urn:schemas-microsoft-com:office:office" lang="en" dir="ltr">
<head>
<meta charset="utf-8"><meta http-equiv="Content-Type" content="text/html; charset=utf-8" /><meta name="viewport" content="width=device-width, initial-scale=1">
<title>News &amp; more</title>
<link rel="stylesheet" href="https://fonts.example/css">
</head>
<body bgcolor="#eeeeee" leftmargin="0" marginwidth=0 style="margin:0">
<center><font face="Arial" size=2 color=red>x</font></center>
</body>
</html>`,
	"outlook":       `<!--[if mso]><table width="600"><tr><td><![endif]--><div>x</div><!--[if mso]></td></tr></table><![endif]-->`,
	"outlook shown": `<!--[if !mso]><!--><div>x</div><!--<![endif]--><![if !mso]>y<![endif]>`,
	"outlook drawing": `<!--[if gte mso 9]><xml><o:OfficeDocumentSettings><o:AllowPNG/><o:PixelsPerInch>96</o:PixelsPerInch></o:OfficeDocumentSettings></xml><![endif]-->
<!--[if mso]><v:roundrect xmlns:v="urn:schemas-microsoft-com:vml" href="https://x.example" style="height:40px;v-text-anchor:middle;width:200px;" arcsize="10%" strokecolor="#1e3650" fillcolor="#ff0000"><w:anchorlock/><center style="color:#fff">Go</center></v:roundrect><![endif]-->`,
	"lists":  `<ol start="3" reversed><li value=4>a<li>b</ol><dl><dt>x<dd>y</dl>`,
	"form":   `<form action="https://x.example/answer" method="post"><input type="text" name=a placeholder="b"><button type="submit">go</button><textarea rows="2">a &lt; b</textarea></form>`,
	"legacy": `<body topmargin="0" link="#0000ee" vlink=purple><hr noshade size=1><nobr>x</nobr><wbr><s>y</s></body>`,
	"data":   `<div data-x="1" aria-label="l" role='img' hidden itemscope itemtype="https://schema.org/EmailMessage">x</div>`,
	"emoji":  `<p>Grüße 🎉 日本語</p>`,
}

func TestLayoutStays(t *testing.T) {
	t.Parallel()
	for name, source := range layouts {
		want := source
		if strings.Contains(name, "drawing") {
			// Names of Outlook's elements are written in lower case after them.
			want = strings.NewReplacer("</o:OfficeDocumentSettings>", "</o:officedocumentsettings>", "</o:PixelsPerInch>",
				"</o:pixelsperinch>").Replace(want)
		}
		if got := Clean(source); got != want {
			t.Errorf("%s:\n%s\nbecame\n%s", name, source, got)
		}
	}
}

// Only active content is removed.
func TestOnlyActiveContentGoes(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`a<script>x</script>b`:                                             `ab`,
		`<p onclick="x" class="c">a</p>`:                                   `<p class="c">a</p>`,
		`<a href="javascript:x" title="t">a</a>`:                           `<a title="t">a</a>`,
		`<div style="color:red;width:expression(1);margin:0">a</div>`:      `<div style="color:red;;margin:0">a</div>`,
		`<style>a{color:red}b{behavior:url(x)}c{top:0}</style>`:            `<style>a{color:red}b{}c{top:0}</style>`,
		`a<svg><circle/></svg>b`:                                           `ab`,
		`a<svg>b`:                                                          `ab`,
		`a<object><p>fallback</p></object>b`:                               `ab`,
		`<noscript><b>a</b></noscript>`:                                    `<b>a</b>`,
		`<xmp><b>&</xmp>`:                                                  `<pre>&lt;b>&amp;</pre>`,
		`1 < 2 <3`:                                                         `1 &lt; 2 &lt;3`,
		`<center><blink>a</blink></center>`:                                `<center>a</center>`,
		`<!-- note --><p>a</p>`:                                            `<p>a</p>`,
		`<style>a{}`:                                                       `<style>a{}</style>`,
		`<select><option>a</select>`:                                       `a`,
		`<p title="a>b">x</p>`:                                             `<p title="a&gt;b">x</p>`,
		`<meta charset="utf-7"><b>x</b>`:                                   `<b>x</b>`,
		`<img src="https://x/a.png" srcset="https://x/a.png 1x, b 2x">`:    `<img src="https://x/a.png" srcset="https://x/a.png 1x, b 2x">`,
		`<img srcset="data:image/png;base64,AA== 1x,data:text/html,x 2x">`: `<img>`,
	} {
		if got := Clean(source); got != want {
			t.Errorf("%s\nbecame %s\n  want %s", source, got, want)
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]document{
		"":                   {},
		" \n":                {},
		"<script>x</script>": {},
		"<p>a</p>":           {body: "<p>a</p>", plain: "a"},
		"plain words":        {body: "plain words", plain: "plain words"},
		layouts["document"]: {
			doctype:   `<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">`,
			htmlAttrs: ` xmlns="http://www.w3.org/1999/xhtml" xmlns:v="urn:schemas-microsoft-com:vml" xmlns:o="urn:schemas-microsoft-com:office:office" lang="en" dir="ltr"`,
			head: "<meta charset=\"utf-8\"><meta http-equiv=\"Content-Type\" content=\"text/html; charset=utf-8\" /><meta " +
				"name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
				"<title>News &amp; more</title>\n<link rel=\"stylesheet\" href=\"https://fonts.example/css\">",
			bodyAttrs: ` bgcolor="#eeeeee" leftmargin="0" marginwidth="0" style="margin:0"`,
			body:      "<center><font face=\"Arial\" size=2 color=red>x</font></center>",
			plain:     "x",
		},
		`<html><head><style>a{}</style><p>b</p></head></html>`:  {head: `<style>a{}</style>`, body: `<p>b</p>`, plain: "b"},
		`<body onload=x class=c>a<body class=d></body></html>b`: {bodyAttrs: ` class="c"`, body: "ab", plain: "ab"},
		`<head><title>t</title></head>a`:                        {head: `<title>t</title>`, body: "a", plain: "a"},
	} {
		got := split(source)
		got.body = strings.TrimSpace(got.body)
		if got.doctype != want.doctype || got.htmlAttrs != want.htmlAttrs || got.head != want.head ||
			got.bodyAttrs != want.bodyAttrs || got.body != want.body || got.plain != want.plain {
			t.Errorf("%s\ngot  %+v\nwant %+v", source, got, want)
		}
	}
}

func TestToText(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"":                         "",
		"<p>a</p><p>b</p>":         "a\n\nb",
		"<div>a</div><div>b</div>": "a\nb",
		"a<br>b<br/><br>c":         "a\nb\n\nc",
		"  a \n\t b  ":             "a b",
		"a<b>b</b>c":               "abc",
		"<h1>T</h1>x":              "T\n\nx",
		"<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>d":               "* a\n* b\n\n  * c\n\nd",
		"<ol><li>a<li>b</ol>":                                             "1. a\n2. b",
		`<a href="https://x.example/">go</a>`:                             "go <https://x.example/>",
		`<a href="https://x.example">https://x.example</a>`:               "https://x.example",
		`<a href="javascript:x">go</a>`:                                   "go",
		`<a href="mailto:a@b.c">a@b.c</a>`:                                "a@b.c",
		"<style>a{}</style>b<script>c</script>d":                          "bd",
		"<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>": "a b\nc",
		"<pre>a  b\n  c</pre>d":                                           "a  b\n  c\n\nd",
		"<blockquote>a<br>b</blockquote>c":                                "> a\n> b\n\nc",
		"&lt;b&gt; &amp; &eacute;&nbsp;x":                                 "<b> & é x",
		`<img src=x alt="logo">`:                                          "logo",
		"<!-- x -->a<title>t</title>":                                     "a",
	} {
		if got := ToText(source); got != want {
			t.Errorf("%q\ngot  %q\nwant %q", source, got, want)
		}
	}
}
