package series

import (
	"math"
	"sync"
)

// Values are stored with 9 significant bits, as numbers of 14 bits: 0 means not measured and 1
// means zero. The others have an exponent of 2 and the bits after the first.
const (
	precision = 8   // bits after the first
	smallest  = -20 // of the exponents, about 0.000001
	exponents = 64
	zeroCode  = 1
	firstCode = 2
	lastCode  = firstCode + exponents<<precision - 1
)

// row are the codes of a point.
type row [fields]uint16

// encodeValue returns the code of a value, with fewer bits of its precision if drop is not 0.
func encodeValue(v float64, drop int) uint16 {
	switch {
	case math.IsNaN(v):
		return 0
	case v <= 0:
		return zeroCode
	}
	fraction, exponent := math.Frexp(min(v, math.MaxFloat64)) // fraction is at least 0.5
	bits := precision - drop
	mantissa := int(math.Round((fraction*2 - 1) * float64(int(1)<<bits)))
	if mantissa == 1<<bits { // rounded up
		mantissa, exponent = 0, exponent+1
	}
	exponent -= smallest
	switch {
	case exponent < 0:
		return zeroCode
	case exponent >= exponents:
		return lastCode
	}
	return uint16(firstCode + exponent<<precision + mantissa<<drop)
}

// valuesOf returns the values of all codes.
var valuesOf = sync.OnceValue(func() *[lastCode + 1]float64 {
	var all [lastCode + 1]float64
	for code := range all {
		all[code] = decodeValue(uint16(code)) //nolint:gosec // it is at most lastCode
	}
	return &all
})

func decodeValue(code uint16) float64 {
	switch {
	case code == 0:
		return math.NaN()
	case code == zeroCode:
		return 0
	}
	code -= firstCode
	fraction := 1 + float64(code&(1<<precision-1))/(1<<precision)
	return math.Ldexp(fraction/2, int(code>>precision)+smallest)
}

func encodePoint(p *Point, drop int) (r row) {
	for f, v := range p {
		r[f] = encodeValue(v, drop)
	}
	return r
}

func (r *row) point() (p Point) {
	values := valuesOf()
	for f, code := range r {
		p[f] = values[code]
	}
	return p
}
