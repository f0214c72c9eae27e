package digits

import "strconv"

// Short writes a number with at most n significant digits, and never with an exponent.
func Short(v float64, n int) string {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', n, 64), 64)
	if err != nil {
		short = v
	}
	return strconv.FormatFloat(short, 'f', -1, 64)
}

// Milliseconds writes a time, from a second on in seconds.
func Milliseconds(v float64) string {
	if v >= 1000 {
		return Short(v/1000, 3) + " s"
	}
	return Short(v, 3) + " ms"
}
