package provider

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The characters of a text message, of which each takes one of 160 places or, in the second list, two. A text with any
// other character takes 16 bits for each.
const (
	oneSeptet = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZ" +
		"ÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
	twoSeptets = "\f^{}\\[~]|€"

	// What fits into a single segment, and into each of several, which need room for their order.
	septets, septetsEach = 160, 153
	units, unitsEach     = 70, 67
)

// lengthOf returns how many places a character takes, and whether it is in the 7-bit alphabet.
func lengthOf(r rune) (int, bool) {
	switch {
	case strings.ContainsRune(oneSeptet, r):
		return 1, true
	case strings.ContainsRune(twoSeptets, r):
		return 2, true
	}
	return 0, false
}

// InSegments returns the beginning of a text that fits into n segments of a text message, with dots where it was cut.
func InSegments(s string, n int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	seven := true
	for _, r := range s {
		if _, ok := lengthOf(r); !ok {
			seven = false
			break
		}
	}
	size := func(r rune) int { return utf16.RuneLen(r) }
	single, each, dots := units, unitsEach, "…"
	if seven {
		size = func(r rune) int { length, _ := lengthOf(r); return length }
		single, each, dots = septets, septetsEach, "..."
	}
	room := single
	if n > 1 {
		room = each * n
	}
	used, cut := 0, 0 // cut is where the text with dots ends
	left := room - utf8.RuneCountInString(dots)
	for i, r := range s {
		if used <= left {
			cut = i
		}
		if used += size(r); used > room {
			return strings.TrimRight(s[:cut], " \n\u200d\ufe0f") + dots
		}
	}
	return s
}
