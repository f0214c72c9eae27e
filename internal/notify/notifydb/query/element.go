package query

import "bytes"

// Element returns an element of a JSON array as it is written, and whether the array has it. The array must be valid,
// as what this process stored is. The other elements are passed over, not decoded: that takes a hundredth of the time
// when one of some hundred is wanted.
func Element(array []byte, index int) ([]byte, bool) {
	depth, begin := 0, 0
	for i := 0; i < len(array); i++ {
		switch array[i] {
		case '"':
			for i++; i < len(array) && array[i] != '"'; i++ {
				if array[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			if depth++; depth == 1 {
				begin = i + 1
			}
		case ',', ']', '}':
			if array[i] != ',' {
				depth--
			}
			if depth > 1 || depth == 1 && array[i] != ',' {
				continue
			}
			if index == 0 {
				element := bytes.TrimSpace(array[begin:i])
				return element, len(element) > 0
			}
			index, begin = index-1, i+1
		}
	}
	return nil, false
}
