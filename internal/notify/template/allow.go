package template

import (
	"slices"
	"strings"
)

func words(s string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(s) {
		out[w] = true
	}
	return out
}

var (
	// elements are allowed. Other elements lose their tags and keep their content.
	// Not allowed, because a parser reads their content by other rules than the
	// tokenizer: select, frameset, noscript, template, svg, math.
	elements = words(`
		html head body title style meta link
		a abbr acronym address area article aside audio b bdi bdo big blockquote br button caption center cite code col
		colgroup data dd del details dfn dir div dl dt em fieldset figcaption figure font footer form h1 h2 h3 h4 h5 h6
		header hgroup hr i img input ins kbd label legend li main map mark menu meter nav nobr ol output p picture pre
		progress q rp rt ruby s samp section small source span strike strong sub summary sup table tbody td textarea
		tfoot th thead time tr track tt u ul var video wbr`)

	// office are the elements of Outlook's drawings and settings, which other
	// readers do not know.
	office = words(`
		v:background v:fill v:formulas v:f v:group v:image v:imagedata v:line v:oval v:path v:polyline v:rect v:roundrect
		v:shadow v:shape v:shapetype v:stroke v:textbox v:textpath o:allowpng o:lock o:officedocumentsettings o:p
		o:pixelsperinch o:targetscreensize o:relyonvml w:anchorlock w:compatibility w:donotoptimizeforbrowser
		w:punctuationkerning w:validateagainstschemas w:view w:worddocument w:wrap w:zoom`)

	// swallowed elements are removed with their content.
	swallowed = words(`applet frameset math object svg template`)

	// headElements are allowed in a head.
	headElements = words(`base link meta noscript script style title`)

	plainAttributes = words(`
		abbr align alink alt axis bgcolor border bordercolor cellpadding cellspacing char charoff charset checked class
		clear color cols colspan compact content controls coords datetime dir disabled face for frame headers height hidden
		high hreflang hspace http-equiv id itemid itemprop itemref itemscope itemtype kind label lang leftmargin link loading
		loop low marginheight marginwidth max maxlength media method min muted name noshade nowrap open optimum placeholder
		playsinline preload readonly rel required reversed role rightmargin rows rowspan rules scope shape size sizes span
		srclang start step summary tabindex target text title topmargin bottommargin translate type valign value vlink vspace
		width wrap xml:lang xmlns property`)
)

// attrKind says how an attribute's value is checked.
type attrKind uint8

const (
	attrDrop attrKind = iota
	attrPlain
	attrLink   // the target of a link
	attrImage  // the address of an image
	attrSet    // srcset
	attrStyle  // CSS
	attrAction // the target of a form
	attrLocal  // #name
	attrOffice // plain, but of an element with addresses in unusual attributes
)

func attributeKind(element, name string) attrKind {
	switch name {
	case "style":
		return attrStyle
	case "href", "cite", "longdesc":
		return attrLink
	case "src", "background", "poster":
		return attrImage
	case "srcset":
		return attrSet
	case "action":
		if element == "form" {
			return attrAction
		}
		return attrDrop
	case "usemap":
		return attrLocal
	}
	switch {
	case plainAttributes[name]:
		return attrPlain
	case !plainName(name) || strings.HasPrefix(name, "on"):
		return attrDrop
	case strings.HasPrefix(name, "aria-"), strings.HasPrefix(name, "data-"), strings.HasPrefix(name, "xmlns:"):
		return attrPlain
	case office[element]:
		return attrOffice
	}
	return attrDrop
}

func plainName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (i == 0 || (c < '0' || c > '9') && c != '-' && c != '_' && c != ':' && c != '.') {
			return false
		}
	}
	return s != ""
}

// allowedValue reports whether a value is allowed, and returns it cleaned.
func allowedValue(kind attrKind, v string) (string, bool) {
	switch kind {
	case attrPlain:
		return v, true
	case attrLink:
		return address(v, linkSchemes)
	case attrImage:
		return address(v, imageSchemes)
	case attrAction:
		return address(v, webSchemes)
	case attrSet:
		return v, imageSet(v)
	case attrLocal:
		return v, strings.HasPrefix(v, "#")
	case attrStyle:
		v = cleanCSS(v)
		return v, v != ""
	case attrOffice:
		return v, scheme(stripIgnored(v)) == "" || strings.HasPrefix(v, "#") || addressAllowed(v, imageSchemes)
	}
	return "", false
}

// metaAllowed reports whether a meta element is harmless: it must neither
// redirect nor change how the rest is parsed.
func metaAllowed(attrs []attribute) bool {
	orders := slices.ContainsFunc(attrs, func(a attribute) bool { return a.name == "http-equiv" })
	for _, a := range attrs {
		// The value is not known yet, so it must not be a directive.
		if orders && (hasSlot(a.name) || hasSlot(a.value)) {
			return false
		}
		v := strings.ToLower(strings.TrimSpace(a.value))
		switch a.name {
		case "http-equiv":
			if v != "content-type" && v != "x-ua-compatible" && v != "content-language" && v != "content-style-type" {
				return false
			}
		case "charset":
			if v != "utf-8" && v != "utf8" {
				return false
			}
		case "content":
			if _, set, ok := strings.Cut(v, "charset"); ok && !strings.HasPrefix(strings.TrimLeft(set, " =\"'"), "utf-8") {
				return false
			}
		}
	}
	return true
}

// linkAllowed reports whether a link element only loads styles, fonts or icons.
func linkAllowed(attrs []attribute) bool {
	rels := 0
	for _, a := range attrs {
		switch a.name {
		case "rel":
			for _, word := range strings.Fields(strings.ToLower(a.value)) {
				switch word {
				case "stylesheet", "alternate", "icon", "shortcut", "apple-touch-icon", "preconnect", "dns-prefetch", "canonical":
					rels++
				default:
					return false
				}
			}
		case "href":
			if !addressAllowed(a.value, webSchemes) {
				return false
			}
		}
	}
	return rels > 0
}
