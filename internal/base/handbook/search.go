package handbook

import (
	"io"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode"

	"github.com/yuin/goldmark/ast"

	"ingot/docs"
	"ingot/internal/base/fault"
)

// Limits of a search. They bound what it costs, because anyone can search.
const (
	MaxQuery = 200 // bytes
	MaxWords = 8
	maxHits  = 20
	// maxEndings is how many words of the documents a word of the query may be the beginning of.
	maxEndings = 40
	// around is how many bytes of a section are shown on each side of a match.
	around = 90
	// mostTries is how many matches in a section are tried for an excerpt.
	mostTries = 20
)

// Weights of a word in a section.
const (
	inTitle   = 12
	inHeading = 7
	mostBody  = 5
)

// Hit is a page that a search found, with its best section.
type Hit struct {
	Page    *Page
	Heading Heading // of the section; the page's title if it has none
	Text    []Piece // an excerpt
}

// Piece is a part of an excerpt.
type Piece struct {
	Text  string
	Match bool
}

// section is the part of a page below a heading.
type section struct {
	page       uint16
	heading    Heading
	start, end int // in the source
}

// posting says how much a word matters in a section.
type posting struct {
	section uint16
	weight  uint8
}

// words is the inverted index: each word with the sections that have it.
type words struct {
	sections []section
	terms    []string // sorted
	postings [][]posting
}

var searchIndex = sync.OnceValue(buildIndex)

// buildIndex reads all documents.
func buildIndex() *words {
	w := &words{}
	found := map[string][]posting{}
	for i, p := range All() {
		source := p.Source()
		for _, s := range p.sections(source) {
			s.page = uint16(i) //nolint:gosec // there are about a hundred pages
			w.add(found, s, Unlinked(string(source[s.start:s.end])), p)
		}
	}
	for term := range found {
		w.terms = append(w.terms, term)
	}
	sort.Strings(w.terms)
	for _, term := range w.terms {
		w.postings = append(w.postings, slices.Clip(found[term]))
	}
	return w
}

// add adds the words of a section.
func (w *words) add(found map[string][]posting, s section, body string, p *Page) {
	at := uint16(len(w.sections)) //nolint:gosec // about a thousand
	w.sections = append(w.sections, s)
	weights := map[string]int{}
	for _, term := range append(split(body), names(body)...) {
		weights[term] = min(weights[term]+1, mostBody)
	}
	for _, term := range split(s.heading.Text) {
		weights[term] = max(weights[term], inHeading)
	}
	if s.heading.Level <= 1 {
		for _, term := range append(split(p.Title), split(p.Name)...) {
			weights[term] = max(weights[term], inTitle)
		}
	}
	for term, weight := range weights {
		if _, ok := found[term]; !ok {
			term = strings.Clone(term) // not a part of the document
		}
		found[term] = append(found[term], posting{at, uint8(weight)}) //nolint:gosec // at most inTitle
	}
}

// sections returns the sections of a page; the first begins with the page.
func (p *Page) sections(source []byte) []section {
	doc, headings := p.parse(source)
	all := []section{{heading: Heading{Level: 1, Text: p.Title}}}
	next := 0
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if _, ok := n.(*ast.Heading); !ok || next == len(headings) {
			continue
		}
		h := headings[next]
		next++
		if n.Lines().Len() == 0 || h.Level <= 1 {
			continue
		}
		start := n.Lines().At(0).Start
		all[len(all)-1].end = start
		all = append(all, section{heading: h, start: start})
	}
	all[len(all)-1].end = len(source)
	return all
}

// split returns the words of a text, in lower case and without the plural's ending.
func split(text string) []string {
	all := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !isWord(r) })
	for i, word := range all {
		all[i] = stem(word)
	}
	return all
}

// names returns the words of a text that have several parts, such as create-service and INGOT_DATA_DIR.
func names(text string) []string {
	all := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !isWord(r) && !joins(r) })
	var found []string
	for _, word := range all {
		if word = strings.TrimFunc(word, joins); strings.ContainsFunc(word, joins) {
			found = append(found, stem(word))
		}
	}
	return found
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func joins(r rune) bool { return r == '-' || r == '_' || r == '.' }

// of returns what to look for: the names of a query that the documents have, and its other words.
func (w *words) of(query string) []string {
	var terms []string
	for word := range strings.FieldsSeq(query) {
		if whole := names(word); len(whole) == 1 && w.has(whole[0]) {
			terms = append(terms, whole[0])
		} else {
			terms = append(terms, split(word)...)
		}
	}
	slices.Sort(terms)
	return slices.Compact(terms)
}

// has reports whether a word is in the documents, or the beginning of one.
func (w *words) has(term string) bool {
	at := sort.SearchStrings(w.terms, term)
	return at < len(w.terms) && strings.HasPrefix(w.terms[at], term)
}

func stem(word string) string {
	if len(word) > 3 {
		return strings.TrimSuffix(word, "s")
	}
	return word
}

// score is what a search knows of a section or a page.
type score struct {
	points  float64
	matched uint // the words of the query, by their bits
}

// Search returns the pages that have all words of a text, or words that begin with them, best first.
func Search(query string) ([]Hit, error) {
	if len(query) > MaxQuery {
		return nil, fault.New(fault.BadRequest, "A search may have at most %d characters.", MaxQuery)
	}
	w := searchIndex()
	terms := w.of(query)
	switch {
	case len(terms) > MaxWords:
		return nil, fault.New(fault.BadRequest, "A search may have at most %d different words.", MaxWords)
	case len(terms) == 0:
		return nil, nil
	}
	return w.best(w.score(terms), terms), nil
}

// score returns what matters in which sections.
func (w *words) score(terms []string) []score {
	scores := make([]score, len(w.sections))
	for i, term := range terms {
		from := sort.SearchStrings(w.terms, term)
		for at := from; at < len(w.terms) && at < from+maxEndings && strings.HasPrefix(w.terms[at], term); at++ {
			rare := math.Log(1 + float64(len(w.sections))/float64(len(w.postings[at])))
			if w.terms[at] != term {
				rare /= 3
			}
			for _, p := range w.postings[at] {
				scores[p.section].points += rare * float64(p.weight)
				scores[p.section].matched |= 1 << i
			}
		}
	}
	return scores
}

// best returns the best section of each page that has all words.
func (w *words) best(scores []score, terms []string) []Hit {
	all := uint(1)<<len(terms) - 1
	type found struct {
		section int
		best    float64
		score
	}
	pages := make([]found, len(All()))
	for i, s := range scores {
		if s.matched == 0 {
			continue
		}
		f := &pages[w.sections[i].page]
		f.matched |= s.matched
		f.points += s.points / 10
		// A section with all words is better than one with some of them often.
		if one := s.points * float64(bits.OnesCount(s.matched)); one > f.best {
			f.section, f.best = i, one
		}
	}
	pages = slices.DeleteFunc(pages, func(f found) bool { return f.matched != all })
	slices.SortStableFunc(pages, func(a, b found) int {
		switch one, other := a.best+a.points, b.best+b.points; {
		case one > other:
			return -1
		case one < other:
			return 1
		}
		return 0
	})
	var hits []Hit
	for _, f := range pages[:min(len(pages), maxHits)] {
		s := w.sections[f.section]
		p := All()[s.page]
		hits = append(hits, Hit{Page: p, Heading: s.heading, Text: excerpt(p.section(s), terms)})
	}
	return hits
}

// section returns the source of a section.
func (p *Page) section(s section) string {
	f, err := docs.Files.Open(p.file)
	if err != nil {
		return ""
	}
	defer f.Close()
	at, ok := f.(io.ReaderAt)
	if !ok {
		return string(p.Source()[s.start:s.end])
	}
	b := make([]byte, s.end-s.start)
	n, _ := at.ReadAt(b, int64(s.start))
	return string(b[:n])
}

// excerpt returns the part of a section around the first match.
func excerpt(source string, terms []string) []Piece {
	if _, rest, ok := strings.Cut(source, "\n"); ok { // without the heading
		source = rest
	}
	text, at := "", -1
	for from, tries := 0, 0; at < 0 && tries < mostTries; tries++ { // the first ones may be in the addresses of links
		match := firstMatch(source[from:], terms)
		text = strings.Join(strings.Fields(Plain(window(source, from+max(match, 0), 2*around))), " ")
		if at = firstMatch(text, terms); match < 0 {
			break
		}
		from += match + 1
	}
	part := window(text, max(at, 0), around)
	var pieces []Piece
	if !strings.HasPrefix(text, part) || !strings.HasPrefix(Plain(source[:min(len(source), 4*around)]), part) {
		pieces = append(pieces, Piece{Text: "… "})
	}
	done := 0
	eachWord(part, func(start, end int) bool {
		if matches(part[start:end], terms) {
			pieces = append(pieces, Piece{Text: part[done:start]}, Piece{Text: part[start:end], Match: true})
			done = end
		}
		return true
	})
	return append(pieces, Piece{Text: part[done:]})
}

// firstMatch returns where the first word of a query is, or -1.
func firstMatch(text string, terms []string) int {
	at := -1
	eachWord(text, func(start, end int) bool {
		found := matches(text[start:end], terms)
		if found {
			at = start
		}
		return !found
	})
	return at
}

// window returns the words of a text that begin at most some bytes before a position, and a few more after it.
func window(text string, at, width int) string {
	from, to := max(0, at-width), min(len(text), at+width+width/2)
	if from > 0 {
		from += max(0, strings.IndexAny(text[from:at], " \n")) + 1
	}
	if to < len(text) {
		to = at + max(0, strings.LastIndexAny(text[at:to], " \n"))
	}
	return strings.ToValidUTF8(text[min(from, at):to], "")
}

// eachWord calls a function with the ends of each word, until it returns false.
func eachWord(text string, do func(start, end int) bool) {
	start := -1
	for i, r := range text + " " {
		inside := isWord(r)
		switch {
		case inside && start < 0:
			start = i
		case !inside && start >= 0:
			if !do(start, i) {
				return
			}
			start = -1
		}
	}
}

// matches reports whether a word is one of the query, or a part of one of its names.
func matches(word string, terms []string) bool {
	word = stem(strings.ToLower(word))
	return slices.ContainsFunc(terms, func(term string) bool {
		return strings.HasPrefix(word, term) || strings.ContainsFunc(term, joins) && slices.Contains(split(term), word)
	})
}

// Section returns the source below a heading, with the sections inside it.
func (p *Page) Section(anchor string) (string, bool) {
	source := p.Source()
	all := p.sections(source)
	for i, s := range all {
		if s.heading.Anchor != anchor || anchor == "" {
			continue
		}
		end := s.end
		for _, below := range all[i+1:] {
			if below.heading.Level <= s.heading.Level {
				break
			}
			end = below.end
		}
		text := strings.TrimRight(string(source[s.start:end]), "# \n") // the marks of the next heading
		return strings.Repeat("#", s.heading.Level) + " " + text + "\n", true
	}
	return "", false
}
