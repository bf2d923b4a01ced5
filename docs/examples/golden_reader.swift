// Hold angles in float32 to a golden file of posenc: swiftc golden_reader.swift, golden_reader FILE
// It says what golden_reader.rs says, line by line. No compiler has read it, as none was at hand.
import CryptoKit  // on Linux `Crypto`, of swift-crypto
import Foundation
struct Failure: Error { let why: String }
typealias Record = [String: Any]
let keys = ["check", "part", "state", "length", "case", "position", "positions", "q_positions"]

func must(_ holds: Bool, _ otherwise: String) throws {
    if !holds { throw Failure(why: otherwise) }
}

// The records in the bytes of a file, which must be whole.
func records(of data: Data) throws -> [Record] {
    let contract = try JSONSerialization.jsonObject(with: data) as? Record ?? [:]
    try must(contract["format"] as? String == "posenc contract", "no golden file")
    let version = contract["version"] as? Int
    try must(version == 1 || version == 2, "not version 1 or 2")
    guard let records = contract["checks"] as? [Record] else { throw Failure(why: "no records") }
    if version == 2 {
        try must(data.count > 79, "cut: it has no end")
        let (body, end) = (data.prefix(data.count - 79), data.suffix(79))
        let hex = SHA256.hash(data: body).map { String(format: "%02x", $0) }.joined()
        try must(end == Data("\"sha256\": \"\(hex)\"\n}\n".utf8), "cut or changed: another digest")
        try must(contract["records"] as? Int == records.count, "another count of records")
    }
    let place = { (check: Record) in keys.map { "\(check[$0] ?? "")" }.joined(separator: "\n") }
    try must(Set(records.map(place)).count == records.count, "a record stands twice")
    return records
}

func number(_ check: Record, _ key: String) throws -> Double {
    guard let value = check[key] as? Double else { throw Failure(why: "no number \(key)") }
    return value
}

func numbers(_ check: Record, _ key: String) throws -> [Double] {
    guard let list = check[key] as? [Double] else { throw Failure(why: "no list \(key)") }
    return list
}

// Numbers below a size, one for each pair.
func indices(_ check: Record, _ key: String, _ pairs: Int, _ size: Int) throws -> [Int] {
    let found = try numbers(check, key)
    let inside = found.allSatisfy { $0 >= 0 && $0 < Double(size) && $0 == $0.rounded() }
    try must(found.count == pairs && inside, "an index outside its array")
    return found.map { Int($0) }
}

// A tolerance of the file, which may not be wider than the rule of docs/golden.md.
func bounded(_ check: Record, _ key: String, _ most: Double) throws -> Double {
    let stated = try number(check, key)
    try must(stated >= 0 && stated <= most * 1.001, "a tolerance that is wider than its rule")
    return stated
}

// How many arrays of a record of angles are off, each told, of the three that are compared.
func differences(_ check: Record, _ known: Record) throws -> Int {
    let alike = { (key: String) in check[key] as? String == known[key] as? String }
    try must(alike("part") && alike("state"), "angles without their frequencies")
    let f = try numbers(known, "frequencies_float32"), exact = try numbers(known, "frequencies")
    let x = try numbers(known, "query"), position = try numbers(check, "position")
    try must(!f.isEmpty && f.count == exact.count, "not one frequency for each pair")
    let axis = try indices(known, "axis", f.count, position.count)
    let channels = { (key: String) in try indices(known, key, f.count, x.count) }
    let first = try channels("first"), second = try channels("second")
    let firstOut = try channels("first_out"), secondOut = try channels("second_out")
    let factor = Float(try number(known, "attention_factor"))
    let start = Float(try number(known, "start")), sign = Float(try number(known, "sign"))
    var cosines: [Double] = [], sines: [Double] = [], turned = x.map { _ in 0.0 }, size = 0.0
    let unit = pow(2.0, -24), m = Double(abs(factor))
    for j in 0..<f.count {
        let angle = (Float(position[axis[j]]) + start) * Float(f[j])
        let c = factor * cos(angle), s = factor * sin(angle)
        let a = Float(x[first[j]]), b = Float(x[second[j]])
        turned[firstOut[j]] = Double(a * c - sign * b * s)
        turned[secondOut[j]] = Double(b * c + sign * a * s)
        cosines.append(Double(c))
        sines.append(Double(s))
        let logarithm = exact[j] == 0 ? 0 : abs(log(abs(exact[j])))
        size = max(size, Double(abs(angle)) * (4 + logarithm) + 2)
    }
    let bound = try bounded(check, "tolerance_float32", m * unit * size)
    let after = try bounded(check, "rotated_tolerance_float32", 2 * m * unit * (size + 3))
    var wrong = 0
    let arrays = [("cos", cosines, bound), ("sin", sines, bound), ("rotated_query", turned, after)]
    for (name, mine, most) in arrays {
        let expected = try numbers(check, name)
        try must(expected.count == mine.count, "another number of values")
        let apart = zip(mine, expected).map { abs($0 - $1) }
        if let off = apart.first(where: { $0.isNaN || $0 > most }) {
            print("\(name) at position \(position[0]) is off by \(off), allowed \(most)")
            wrong += 1
        }
    }
    return wrong
}

// Whether anything is off, or nothing was compared.
func differs(_ path: String) throws -> Bool {
    var compared = 0, wrong = 0, known: Record = [:]
    for check in try records(of: Data(contentsOf: URL(fileURLWithPath: path))) {
        if check["check"] as? String == "angles" && check["cos"] != nil {
            wrong += try differences(check, known)
            compared += 3
        } else if check["check"] as? String == "frequencies" {
            known = check  // of the records of angles that follow
        }
    }
    print("\(compared) arrays compared, \(wrong) differ")
    return wrong > 0 || compared == 0
}

let path = CommandLine.arguments.dropFirst().first ?? ""
do {
    exit(try differs(path) ? 1 : 0)
} catch {
    FileHandle.standardError.write(Data("\(path): no golden file that is whole: \(error)\n".utf8))
    exit(1)
}
