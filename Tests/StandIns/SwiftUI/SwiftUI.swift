// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

@_exported import Foundation
@_exported import Observation

// The few names of SwiftUI that Examples/AppleTunnel and Examples/PinnedApp use, with the signatures of
// https://developer.apple.com/documentation/swiftui/view
// https://developer.apple.com/documentation/swiftui/app
// https://developer.apple.com/documentation/swiftui/state
// https://developer.apple.com/documentation/swiftui/binding
// https://developer.apple.com/documentation/swiftui/environment
// https://developer.apple.com/documentation/swiftui/viewbuilder
// https://developer.apple.com/documentation/swiftui/text
// https://developer.apple.com/documentation/swiftui/navigationstack
// https://developer.apple.com/documentation/swiftui/navigationlink
// https://developer.apple.com/documentation/swiftui/list
// https://developer.apple.com/documentation/swiftui/form
// https://developer.apple.com/documentation/swiftui/section
// https://developer.apple.com/documentation/swiftui/foreach
// https://developer.apple.com/documentation/swiftui/toggle
// https://developer.apple.com/documentation/swiftui/labeledcontent
// https://developer.apple.com/documentation/swiftui/textfield
// https://developer.apple.com/documentation/swiftui/button
// https://developer.apple.com/documentation/swiftui/vstack
// https://developer.apple.com/documentation/swiftui/windowgroup
// https://developer.apple.com/documentation/swiftui/emptyview
// https://developer.apple.com/documentation/swiftui/tupleview
// https://developer.apple.com/documentation/swiftui/dismissaction
// https://developer.apple.com/documentation/swiftui/environmentvalues
// https://developer.apple.com/documentation/swiftui/font
// https://developer.apple.com/documentation/swiftui/color
// https://developer.apple.com/documentation/swiftui/hierarchicalshapestyle
// https://developer.apple.com/documentation/swiftui/dynamicviewcontent/ondelete(perform:)
// https://developer.apple.com/documentation/swiftui/view/task(priority:_:)
// https://developer.apple.com/documentation/swiftui/view/font(_:)
// https://developer.apple.com/documentation/swiftui/view/foregroundstyle(_:)
// https://developer.apple.com/documentation/swiftui/view/linelimit(_:)
// https://developer.apple.com/documentation/swiftui/view/navigationtitle(_:)
// https://developer.apple.com/documentation/swiftui/view/toolbar(content:)
// https://developer.apple.com/documentation/swiftui/view/sheet(ispresented:ondismiss:content:)
// https://developer.apple.com/documentation/swiftui/view/disabled(_:)
// https://developer.apple.com/documentation/swiftui/tabview
// https://developer.apple.com/documentation/swiftui/label
// https://developer.apple.com/documentation/swiftui/bindable
// https://developer.apple.com/documentation/swiftui/securefield
// https://developer.apple.com/documentation/swiftui/buttonrole
// https://developer.apple.com/documentation/swiftui/view/tabitem(_:)
// https://developer.apple.com/documentation/swiftui/view/confirmationdialog(_:ispresented:titlevisibility:actions:)
// https://developer.apple.com/documentation/swiftui/view/alert(_:ispresented:actions:message:)
// https://developer.apple.com/documentation/swiftui/view/searchable(text:placement:prompt:)
// https://developer.apple.com/documentation/swiftui/view/tag(_:)
// https://developer.apple.com/documentation/swiftui/progressview
// https://developer.apple.com/documentation/swiftui/picker
// https://developer.apple.com/documentation/swiftui/sharelink
// https://developer.apple.com/documentation/swiftui/image
// https://developer.apple.com/documentation/swiftui/hstack
// https://developer.apple.com/documentation/swiftui/spacer
// They draw nothing: what is found out is that the example's views are Swift that
// means something.

@MainActor @preconcurrency
public protocol View {
    associatedtype Body: View
    @ViewBuilder @MainActor @preconcurrency var body: Body { get }
}

@MainActor @preconcurrency
public protocol Scene {
    associatedtype Body: Scene
    @SceneBuilder @MainActor @preconcurrency var body: Body { get }
}

@MainActor @preconcurrency
public protocol App {
    associatedtype Body: Scene
    @SceneBuilder @MainActor @preconcurrency var body: Body { get }
    @MainActor @preconcurrency init()
}

extension App {
    @MainActor @preconcurrency
    public static func main() { _ = Self() }
}

extension Never: View, Scene {
    // With `return` it is built by neither of the two builders.
    public var body: Never { return fatalError("nothing is drawn here") }
}

/// A view or scene without parts.
public protocol Drawn: View where Body == Never {}

extension Drawn {
    public var body: Never { fatalError("nothing is drawn here") }
}

@resultBuilder
public enum ViewBuilder {
    public static func buildBlock() -> EmptyView { EmptyView() }
    public static func buildExpression<Content: View>(_ content: Content) -> Content { content }
    public static func buildBlock<Content: View>(_ content: Content) -> Content { content }
    public static func buildBlock<each Content: View>(_ content: repeat each Content) -> TupleView<
        (repeat each Content)
    > {
        TupleView()
    }
    public static func buildIf<Content: View>(_ content: Content?) -> Content? { content }
    public static func buildEither<First: View, Second: View>(first: First) -> ConditionalContent<First, Second> {
        ConditionalContent()
    }
    public static func buildEither<First: View, Second: View>(second: Second) -> ConditionalContent<First, Second> {
        ConditionalContent()
    }
}

@resultBuilder
public enum SceneBuilder {
    public static func buildExpression<Content: Scene>(_ content: Content) -> Content { content }
    public static func buildBlock<Content: Scene>(_ content: Content) -> Content { content }
}

public struct EmptyView: Drawn {
    nonisolated init() {}
}

public struct TupleView<T>: Drawn {
    nonisolated init() {}
}

/// One view or another; Apple's has a name that is not documented.
public struct ConditionalContent<First: View, Second: View>: Drawn {
    nonisolated init() {}
}

extension Optional: View where Wrapped: View {
    public var body: Never { fatalError("nothing is drawn here") }
}

/// The result of a view's modifier.
public struct ModifiedView<Content: View>: Drawn {}

// MARK: - State

@propertyWrapper
public struct State<Value> {
    private final class Box {
        var value: Value
        init(_ value: Value) { self.value = value }
    }

    private let box: Box

    public init(wrappedValue value: Value) { box = Box(value) }

    public var wrappedValue: Value {
        get { box.value }
        nonmutating set { box.value = newValue }
    }

    public var projectedValue: Binding<Value> {
        let box = Box(wrappedValue)
        nonisolated(unsafe) let held = box
        return Binding(get: { held.value }, set: { held.value = $0 })
    }
}

extension State where Value: ExpressibleByNilLiteral {
    public init() { self.init(wrappedValue: nil) }
}

@propertyWrapper
@dynamicMemberLookup
public struct Binding<Value> {
    private let read: @isolated(any) @Sendable () -> Value
    private let write: @isolated(any) @Sendable (Value) -> Void

    @preconcurrency
    public init(
        get: @escaping @isolated(any) @Sendable () -> Value, set: @escaping @isolated(any) @Sendable (Value) -> Void
    ) {
        (read, write) = (get, set)
    }

    public var wrappedValue: Value {
        get { fatalError("nothing is shown here") }
        nonmutating set { _ = newValue }
    }

    public var projectedValue: Binding<Value> { self }

    public subscript<Subject>(dynamicMember keyPath: WritableKeyPath<Value, Subject>) -> Binding<Subject> {
        Binding<Subject>(get: { fatalError("nothing is shown here") }, set: { _ in })
    }
}

@propertyWrapper
@dynamicMemberLookup
public struct Bindable<Value> {
    public var wrappedValue: Value

    public init(wrappedValue: Value) where Value: AnyObject, Value: Observable { self.wrappedValue = wrappedValue }

    public var projectedValue: Bindable<Value> { self }

    public subscript<Subject>(
        dynamicMember keyPath: ReferenceWritableKeyPath<Value, Subject>
    ) -> Binding<Subject> where Value: AnyObject {
        Binding<Subject>(get: { fatalError("nothing is shown here") }, set: { _ in })
    }
}

public struct DismissAction {
    @MainActor @preconcurrency
    public func callAsFunction() {}
}

public struct EnvironmentValues {
    public var dismiss: DismissAction { DismissAction() }
}

@propertyWrapper
public struct Environment<Value> {
    private let path: KeyPath<EnvironmentValues, Value>
    public init(_ keyPath: KeyPath<EnvironmentValues, Value>) { path = keyPath }
    public var wrappedValue: Value { EnvironmentValues()[keyPath: path] }
}

// MARK: - Views

public struct WindowGroup<Content: View>: Scene {
    public init(@ViewBuilder content: () -> Content) {}
    public var body: Never { fatalError("nothing is drawn here") }
}

public struct Text: Drawn {
    public init<S: StringProtocol>(_ content: S) {}
}

public struct NavigationStack<Root: View>: Drawn {
    public init(@ViewBuilder root: () -> Root) {}
}

public struct NavigationLink<Label: View, Destination: View>: Drawn {
    public init(@ViewBuilder destination: () -> Destination, @ViewBuilder label: () -> Label) {}
}

public struct List<Content: View>: Drawn {
    public init(@ViewBuilder content: () -> Content) {}
}

public struct Form<Content: View>: Drawn {
    public init(@ViewBuilder content: () -> Content) {}
}

public struct Section<Content: View>: Drawn {
    public init<S: StringProtocol>(_ title: S, @ViewBuilder content: () -> Content) {}
}

public struct ForEach<Data: RandomAccessCollection, ID: Hashable, Content: View>: Drawn {
    public init(_ data: Data, id: KeyPath<Data.Element, ID>, @ViewBuilder content: @escaping (Data.Element) -> Content)
    {}
    public func onDelete(perform action: ((IndexSet) -> Void)?) -> ModifiedView<Self> { ModifiedView() }
}

extension ForEach where Data.Element: Identifiable, ID == Data.Element.ID {
    public init(_ data: Data, @ViewBuilder content: @escaping (Data.Element) -> Content) {}
}

public struct Toggle<Label: View>: Drawn {
    public init(isOn: Binding<Bool>, @ViewBuilder label: () -> Label) {}
}

extension Toggle where Label == Text {
    public init<S: StringProtocol>(_ title: S, isOn: Binding<Bool>) {}
}

public struct LabeledContent: Drawn {
    public init<S: StringProtocol, V: StringProtocol>(_ title: S, value: V) {}
}

public struct TextField: Drawn {
    public init<S: StringProtocol>(_ title: S, text: Binding<String>) {}
    public init<S: StringProtocol>(_ title: S, text: Binding<String>, axis: Axis) {}
}

public struct SecureField: Drawn {
    public init<S: StringProtocol>(_ title: S, text: Binding<String>) {}
}

public struct Label: Drawn {
    public init<S: StringProtocol>(_ title: S, systemImage name: String) {}
}

public struct TabView<Content: View>: Drawn {
    public init(@ViewBuilder content: () -> Content) {}
}

public struct ButtonRole: Equatable, Sendable {
    public static let destructive = ButtonRole()
}

public struct Button: Drawn {
    public init<S: StringProtocol>(_ title: S, role: ButtonRole?, action: @escaping @MainActor () -> Void) {}
    public init<S: StringProtocol>(_ title: S, action: @escaping @MainActor () -> Void) {}
    public init<S: StringProtocol>(_ title: S, systemImage: String, action: @escaping @MainActor () -> Void) {}
}

public struct ProgressView: Drawn {
    public init() {}
    public init<S: StringProtocol>(_ title: S) {}
}

public struct Picker<SelectionValue: Hashable, Content: View>: Drawn {
    public init<S: StringProtocol>(
        _ title: S, selection: Binding<SelectionValue>, @ViewBuilder content: () -> Content
    ) {}
}

public struct ShareLink: Drawn {
    public init(item: String) {}
}

public struct Image: Drawn {
    public init(systemName: String) {}
}

public struct Spacer: Drawn {
    public init() {}
}

public struct HStack<Content: View>: Drawn {
    public init(alignment: VerticalAlignment = .center, spacing: Double? = nil, @ViewBuilder content: () -> Content) {}
}

public struct VStack<Content: View>: Drawn {
    public init(alignment: HorizontalAlignment = .center, spacing: Double? = nil, @ViewBuilder content: () -> Content) {
    }
}

// MARK: - Modifiers

public enum Axis: Sendable {
    case horizontal
    case vertical
}

public enum HorizontalAlignment: Sendable {
    case leading
    case center
    case trailing
}

public enum VerticalAlignment: Sendable {
    case top
    case center
    case bottom
}

public struct Font: Sendable {
    public static let largeTitle = Font()
    public static let title = Font()
    public static let body = Font()
    public static let caption = Font()
    public func monospaced() -> Font { self }
}

public protocol PrimitiveButtonStyle {}

public struct BorderlessButtonStyle: PrimitiveButtonStyle {}

extension PrimitiveButtonStyle where Self == BorderlessButtonStyle {
    public static var borderless: BorderlessButtonStyle { BorderlessButtonStyle() }
}

public protocol ShapeStyle: Sendable {}

public struct Color: ShapeStyle {
    public static let red = Color()
    public static let primary = Color()
}

public struct HierarchicalShapeStyle: ShapeStyle {}

extension ShapeStyle where Self == Color {
    public static var red: Color { Color() }
}

extension ShapeStyle where Self == HierarchicalShapeStyle {
    public static var secondary: HierarchicalShapeStyle { HierarchicalShapeStyle() }
}

extension View {
    public func task(
        priority: TaskPriority = .userInitiated,
        @_inheritActorContext _ action: sending @escaping @isolated(any) () async -> Void
    ) -> ModifiedView<Self> { ModifiedView() }

    public func font(_ font: Font?) -> ModifiedView<Self> { ModifiedView() }

    public func foregroundStyle<S: ShapeStyle>(_ style: S) -> ModifiedView<Self> { ModifiedView() }

    public func buttonStyle<S: PrimitiveButtonStyle>(_ style: S) -> ModifiedView<Self> { ModifiedView() }

    public func lineLimit(_ limit: PartialRangeFrom<Int>) -> ModifiedView<Self> { ModifiedView() }

    public func navigationTitle<S: StringProtocol>(_ title: S) -> ModifiedView<Self> { ModifiedView() }

    public func toolbar<Content: View>(@ViewBuilder content: () -> Content) -> ModifiedView<Self> { ModifiedView() }

    public func sheet<Content: View>(
        isPresented: Binding<Bool>, onDismiss: (() -> Void)? = nil, @ViewBuilder content: @escaping () -> Content
    ) -> ModifiedView<Self> { ModifiedView() }

    public func tabItem<V: View>(@ViewBuilder _ label: () -> V) -> ModifiedView<Self> { ModifiedView() }

    public func confirmationDialog<S: StringProtocol, A: View>(
        _ title: S, isPresented: Binding<Bool>, @ViewBuilder actions: () -> A
    ) -> ModifiedView<Self> { ModifiedView() }

    public func confirmationDialog<S: StringProtocol, A: View, T>(
        _ title: S, isPresented: Binding<Bool>, presenting data: T?, @ViewBuilder actions: (T) -> A
    ) -> ModifiedView<Self> { ModifiedView() }

    public func alert<S: StringProtocol, A: View, M: View>(
        _ title: S, isPresented: Binding<Bool>, @ViewBuilder actions: () -> A, @ViewBuilder message: () -> M
    ) -> ModifiedView<Self> { ModifiedView() }

    public func searchable(text: Binding<String>) -> ModifiedView<Self> { ModifiedView() }

    public func tag<V: Hashable>(_ tag: V) -> ModifiedView<Self> { ModifiedView() }

    public func disabled(_ disabled: Bool) -> ModifiedView<Self> { ModifiedView() }
}
